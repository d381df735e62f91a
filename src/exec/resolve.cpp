#include "exec/resolve.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "forest/batch_check.hpp"

namespace trunkline {
namespace {

constexpr std::int32_t kNoRow = -1;

// Finds rows by slot: open addressing over row numbers, linear probing.
class SlotTable {
 public:
  SlotTable(std::span<std::int32_t> rows, const Batch& batch) : rows_(rows), batch_(batch) {
    std::fill(rows_.begin(), rows_.end(), kNoRow);
    for (std::int32_t row = 0; row < batch.rows(); ++row) {
      const std::int32_t slot = batch.slot(row);
      if (slot < 0) fail(ErrorCode::kInvalidArgument, "slots[", row, "] is ", slot, "; slots must be >= 0");
      std::size_t at = home(slot);
      for (; rows_[at] != kNoRow; at = (at + 1) & (rows_.size() - 1)) {
        if (batch.slot(rows_[at]) != slot) continue;
        fail(ErrorCode::kInvalidArgument, "slots[", row, "] is ", slot, ", which is also slots[", rows_[at],
             "]; slots must differ");
      }
      rows_[at] = row;
    }
  }

  std::int32_t find(std::int32_t slot) const {
    for (std::size_t at = home(slot); rows_[at] != kNoRow; at = (at + 1) & (rows_.size() - 1)) {
      if (batch_.slot(rows_[at]) == slot) return rows_[at];
    }
    return kNoRow;
  }

 private:
  std::size_t home(std::int32_t slot) const {
    return (static_cast<std::uint32_t>(slot) * std::uint64_t{0x9E3779B97F4A7C15} >> 32) & (rows_.size() - 1);
  }

  std::span<std::int32_t> rows_;
  const Batch& batch_;
};

std::int32_t live_row(const SlotTable& table, const Batch& batch, std::int32_t slot, std::uint32_t generation) {
  const std::int32_t row = table.find(slot);
  if (row == kNoRow) {
    fail(ErrorCode::kStale, "the plan names slot ", slot,
         ", which no row of the batch has; plan again after a request leaves");
  }
  if (batch.generation(row) != generation) {
    fail(ErrorCode::kStale, "the plan names generation ", generation, " of slot ", slot, ", but row ", row,
         " holds generation ", batch.generation(row), "; plan again after a slot is reused");
  }
  return row;
}

ResolvedQuery resolve_query(const Query& query, const Batch& batch, const SlotTable& table) {
  const std::int32_t row = live_row(table, batch, query.slot, query.generation);
  if (batch.query_count(row) != query.token + query.from_end + 1) {
    fail(ErrorCode::kStale, "row ", row, " brings ", batch.query_count(row),
         " query tokens, but the plan was made for ", query.token + query.from_end + 1);
  }
  const std::int32_t kv_len = batch.kv_lens[static_cast<std::size_t>(row)];
  return {batch.query_begin(row) + query.token, std::max(0, kv_len - query.from_end)};
}

ResolvedSpan resolve_span(const KvSpan& span, std::size_t index, const Batch& batch, const SlotTable& table) {
  const std::int32_t row = live_row(table, batch, span.slot, span.generation);
  const std::int32_t kv_len = batch.kv_lens[static_cast<std::size_t>(row)];
  const Range tokens = span.at(kv_len);
  if (tokens.end > kv_len) {
    fail(ErrorCode::kStale, "kv_lens[", row, "] is ", kv_len, ", but span ", index, " of the plan reads slot ",
         span.slot, " up to ", tokens.end, "; plan again after a request is truncated");
  }
  return {batch.pages.row_begin(row), tokens.begin, std::max(tokens.begin, tokens.end), span.mask,
          (span.flags & kSpanTokenMask) != 0 ? 1 : 0};
}

}  // namespace

std::size_t slot_table_size(std::int32_t rows) {
  std::size_t size = 2;
  while (size < 2 * static_cast<std::size_t>(rows)) size *= 2;
  return size;
}

void resolve_plan(const Plan& plan, const Batch& batch, const ResolveOutput& output) {
  check_batch_shape(batch);
  if (batch.pages.page_size() != plan.shape.page_size) {
    fail(ErrorCode::kInvalidArgument, "batch.pages has page size ", batch.pages.page_size(), "; the plan was made for ",
         plan.shape.page_size);
  }
  if (static_cast<std::size_t>(batch.total_queries()) != plan.queries.size()) {
    fail(ErrorCode::kStale, "the batch has ", batch.total_queries(), " query tokens, but the plan was made for ",
         plan.queries.size());
  }
  const SlotTable table(output.slot_table, batch);
  for (std::size_t i = 0; i < plan.queries.size(); ++i)
    output.queries[i] = resolve_query(plan.queries[i], batch, table);
  for (std::size_t i = 0; i < plan.spans.size(); ++i) output.spans[i] = resolve_span(plan.spans[i], i, batch, table);
}

}  // namespace trunkline
