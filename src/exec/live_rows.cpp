#include "exec/live_rows.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "forest/batch_check.hpp"

namespace trunkline {

std::size_t slot_table_size(std::int32_t rows) {
  std::size_t size = 2;
  while (size < 2 * static_cast<std::size_t>(rows)) size *= 2;
  return size;
}

LiveRows::LiveRows(std::span<std::int32_t> table, const Batch& batch) : rows_(table), batch_(batch) {
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

void LiveRows::check_live(std::int32_t slot, std::uint32_t generation, std::int32_t row) const {
  if (row == kNoRow) {
    fail(ErrorCode::kStale, "the plan names slot ", slot,
         ", which no row of the batch has; plan again after a request leaves");
  }
  if (batch_.generation(row) != generation) {
    fail(ErrorCode::kStale, "the plan names generation ", generation, " of slot ", slot, ", but row ", row,
         " holds generation ", batch_.generation(row), "; plan again after a slot is reused");
  }
}

void LiveRows::refuse(const Query& query, std::int32_t row) const {
  check_live(query.slot, query.generation, row);
  if (batch_.query_count(row) != query.token + query.from_end + 1) {
    fail(ErrorCode::kStale, "row ", row, " brings ", batch_.query_count(row),
         " query tokens, but the plan was made for ", query.token + query.from_end + 1);
  }
  fail(ErrorCode::kStale, "query_parents[", batch_.query_begin(row) + query.token, "] is ",
       batch_.query_parent(row, query.token), " for query token ", query.token, " of row ", row,
       ", but the plan was made for ", query.parent, "; plan again when the shape of a draft tree changes");
}

void LiveRows::refuse(const KvSpan& span, std::size_t index, std::int32_t row) const {
  check_live(span.slot, span.generation, row);
  fail(ErrorCode::kStale, "kv_lens[", row, "] is ", batch_.kv_lens[static_cast<std::size_t>(row)], ", but span ", index,
       " of the plan needs ", needed_length(span), " tokens of slot ", span.slot,
       "; plan again after a request is truncated");
}

void check_live_batch(const Plan& plan, const Batch& batch) {
  check_batch_shape(batch);
  if (batch.pages.page_size() != plan.shape.page_size) {
    fail(ErrorCode::kInvalidArgument, "batch.pages has page size ", batch.pages.page_size(), "; the plan was made for ",
         plan.shape.page_size);
  }
  if (static_cast<std::size_t>(batch.total_queries()) != plan.queries.size()) {
    fail(ErrorCode::kStale, "the batch has ", batch.total_queries(), " query tokens, but the plan was made for ",
         plan.queries.size());
  }
}

}  // namespace trunkline
