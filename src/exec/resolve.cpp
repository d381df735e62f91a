#include "exec/resolve.hpp"

#include <algorithm>

namespace trunkline {
namespace {

// \param parent null where the query has none
ResolvedQuery resolve_query(const Query& query, const ResolvedQuery* parent, const Batch& batch, const LiveRows& rows) {
  const std::int32_t row = rows.row_of(query);
  const std::int32_t kv_len = batch.kv_lens[static_cast<std::size_t>(row)];
  const std::int32_t limit = std::max(0, kv_len - query.from_end);
  const std::int32_t position = parent == nullptr ? limit - 1 : parent->position + 1;
  return {batch.query_begin(row) + query.token, limit, position};
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
  for (std::size_t i = 0; i < plan.queries.size(); ++i) {
    // The queries of a request follow each other.
    const Query& query = plan.queries[i];
    const std::size_t parent_offset = static_cast<std::size_t>(query.token - query.parent);
    const ResolvedQuery* const parent = query.parent < 0 ? nullptr : &output.queries[i - parent_offset];
    output.queries[i] = resolve_query(query, parent, batch, rows);
  }
  for (std::size_t i = 0; i < plan.spans.size(); ++i) output.spans[i] = resolve_span(plan.spans[i], i, batch, rows);
}

std::int32_t tree_depth_of(const Plan& plan, std::span<const ResolvedQuery> queries) {
  std::int32_t depth = 0;
  for (std::size_t i = 0; i < plan.queries.size(); ++i) {
    const std::int32_t behind = queries[i].limit - 1 - queries[i].position;
    if (behind > 0) depth = std::max(depth, plan.queries[i].token - behind);
  }
  return depth;
}

}  // namespace trunkline
