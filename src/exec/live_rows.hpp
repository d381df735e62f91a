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
  std::int32_t row_of(const Query& query) const;
  /// \param index of the span in its plan, for messages
  /// \throws Error(kStale) when the slot or generation is not the batch's, or the request is too short for the span.
  std::int32_t row_of(const KvSpan& span, std::size_t index) const;

 private:
  std::size_t home(std::int32_t slot) const;
  std::int32_t find(std::int32_t slot) const;
  std::int32_t live_row(std::int32_t slot, std::uint32_t generation) const;

  std::span<std::int32_t> rows_;
  const Batch& batch_;
};

/// \throws check_batch's errors for a malformed batch; Error when page size or number of query tokens are not the
/// plan's.
void check_live_batch(const Plan& plan, const Batch& batch);

}  // namespace trunkline
