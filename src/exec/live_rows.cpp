#include "exec/live_rows.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "forest/batch_check.hpp"

namespace trunkline {
namespace {

constexpr std::int32_t kNoRow = -1;

/// The length at which a request still has all that a plan reads of it by position. Drafts do not count: what was read
/// by position at planning time is seen by all of them.
std::int64_t needed_length(const KvSpan& span) {
  if (!span.open_ended()) return span.end;
  const bool moves = (span.flags & kSpanBeginFromEnd) != 0;
  return moves || span.begin == 0 ? 0 : std::int64_t{span.begin} - span.end;
}

}  // namespace

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

std::size_t LiveRows::home(std::int32_t slot) const {
  return (static_cast<std::uint32_t>(slot) * std::uint64_t{0x9E3779B97F4A7C15} >> 32) & (rows_.size() - 1);
}

std::int32_t LiveRows::find(std::int32_t slot) const {
  for (std::size_t at = home(slot); rows_[at] != kNoRow; at = (at + 1) & (rows_.size() - 1)) {
    if (batch_.slot(rows_[at]) == slot) return rows_[at];
  }
  return kNoRow;
}

std::int32_t LiveRows::live_row(std::int32_t slot, std::uint32_t generation) const {
  const std::int32_t row = find(slot);
  if (row == kNoRow) {
    fail(ErrorCode::kStale, "the plan names slot ", slot,
         ", which no row of the batch has; plan again after a request leaves");
  }
  if (batch_.generation(row) != generation) {
    fail(ErrorCode::kStale, "the plan names generation ", generation, " of slot ", slot, ", but row ", row,
         " holds generation ", batch_.generation(row), "; plan again after a slot is reused");
  }
  return row;
}

std::int32_t LiveRows::row_of(const Query& query) const {
  const std::int32_t row = live_row(query.slot, query.generation);
  if (batch_.query_count(row) != query.token + query.from_end + 1) {
    fail(ErrorCode::kStale, "row ", row, " brings ", batch_.query_count(row),
         " query tokens, but the plan was made for ", query.token + query.from_end + 1);
  }
  const std::int32_t parent = batch_.query_parent(row, query.token);
  if (parent != query.parent) {
    fail(ErrorCode::kStale, "query_parents[", batch_.query_begin(row) + query.token, "] is ", parent,
         " for query token ", query.token, " of row ", row, ", but the plan was made for ", query.parent,
         "; plan again when the shape of a draft tree changes");
  }
  return row;
}

std::int32_t LiveRows::row_of(const KvSpan& span, std::size_t index) const {
  const std::int32_t row = live_row(span.slot, span.generation);
  const std::int32_t kv_len = batch_.kv_lens[static_cast<std::size_t>(row)];
  if (const std::int64_t needed = needed_length(span); needed > kv_len) {
    fail(ErrorCode::kStale, "kv_lens[", row, "] is ", kv_len, ", but span ", index, " of the plan needs ", needed,
         " tokens of slot ", span.slot, "; plan again after a request is truncated");
  }
  return row;
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
