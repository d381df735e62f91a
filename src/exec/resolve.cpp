#include "exec/resolve.hpp"

#include <algorithm>

namespace trunkline {
namespace {

ResolvedQuery resolve_query(const Query& query, const Batch& batch, const LiveRows& rows) {
  const std::int32_t row = rows.row_of(query);
  const std::int32_t kv_len = batch.kv_lens[static_cast<std::size_t>(row)];
  return {batch.query_begin(row) + query.token, std::max(0, kv_len - query.from_end)};
}

ResolvedSpan resolve_span(const KvSpan& span, std::size_t index, const Batch& batch, const LiveRows& rows) {
  const std::int32_t row = rows.row_of(span, index);
  const Range tokens = span.at(batch.kv_lens[static_cast<std::size_t>(row)]);
  return {batch.pages.row_begin(row), tokens.begin, std::max(tokens.begin, tokens.end), span.mask,
          (span.flags & kSpanTokenMask) != 0 ? 1 : 0};
}

}  // namespace

void resolve_plan(const Plan& plan, const Batch& batch, const ResolveOutput& output) {
  check_live_batch(plan, batch);
  const LiveRows rows(output.slot_table, batch);
  for (std::size_t i = 0; i < plan.queries.size(); ++i) output.queries[i] = resolve_query(plan.queries[i], batch, rows);
  for (std::size_t i = 0; i < plan.spans.size(); ++i) output.spans[i] = resolve_span(plan.spans[i], i, batch, rows);
}

}  // namespace trunkline
