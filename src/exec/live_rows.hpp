// Finding the rows of a live batch that a plan's slots name, and that they still are what the plan was made for: shared
// by all executors, which differ in where they keep what follows from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trunkline/batch.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Entries of the slot table that LiveRows needs for a batch of so many rows: a power of two, at most half full.
std::size_t slot_table_size(std::int32_t rows);

/// Rows by slot: open addressing over row numbers, linear probing.
class LiveRows {
 public:
  /// \param table slot_table_size(batch.rows()) entries, which outlive this object; as does the batch.
  /// \throws Error naming the row on a negative or repeated slot.
  LiveRows(std::span<std::int32_t> table, const Batch& batch);

  /// \throws Error(kStale) when the query's slot, generation, query count or parent is not the batch's.
  std::int32_t row_of(const Query& query) const {
    const std::int32_t row = find(query.slot);
    if (row != kNoRow && batch_.generation(row) == query.generation &&
        batch_.query_count(row) == query.token + query.from_end + 1 &&
        batch_.query_parent(row, query.token) == query.parent) {
      return row;
    }
    refuse(query, row);
  }
  /// \param index of the span in its plan, for messages
  /// \throws Error(kStale) when the slot or generation is not the batch's, or the request is too short for the span.
  std::int32_t row_of(const KvSpan& span, std::size_t index) const {
    const std::int32_t row = find(span.slot);
    if (row != kNoRow && batch_.generation(row) == span.generation &&
        needed_length(span) <= batch_.kv_lens[static_cast<std::size_t>(row)]) {
      return row;
    }
    refuse(span, index, row);
  }

 private:
  static constexpr std::int32_t kNoRow = -1;

  /// The length at which a request still has all that a plan reads of it by position. Drafts do not count: what was
  /// read by position at planning time is seen by all of them.
  static std::int64_t needed_length(const KvSpan& span) {
    if (!span.open_ended()) return span.end;
    const bool moves = (span.flags & kSpanBeginFromEnd) != 0;
    return moves || span.begin == 0 ? 0 : std::int64_t{span.begin} - span.end;
  }
  std::size_t home(std::int32_t slot) const {
    return (static_cast<std::uint32_t>(slot) * std::uint64_t{0x9E3779B97F4A7C15} >> 32) & (rows_.size() - 1);
  }
  std::int32_t find(std::int32_t slot) const {
    for (std::size_t at = home(slot); rows_[at] != kNoRow; at = (at + 1) & (rows_.size() - 1)) {
      if (batch_.slot(rows_[at]) == slot) return rows_[at];
    }
    return kNoRow;
  }
  void check_live(std::int32_t slot, std::uint32_t generation, std::int32_t row) const;
  [[noreturn]] void refuse(const Query& query, std::int32_t row) const;
  [[noreturn]] void refuse(const KvSpan& span, std::size_t index, std::int32_t row) const;

  std::span<std::int32_t> rows_;
  const Batch& batch_;
};

/// \throws check_batch's errors for a malformed batch; Error when page size or number of query tokens are not the
/// plan's.
void check_live_batch(const Plan& plan, const Batch& batch);

}  // namespace trunkline
