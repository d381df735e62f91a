// Where rows' query tokens begin, as a team copies them from memory that nobody has checked.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/team_batch.hpp"

namespace trunkline {

/// Counts a fault, and keeps the first row that has one.
template <class Team>
TRUNKLINE_HOST_DEVICE void count_fault(std::int32_t& faults, std::int32_t& first_row, std::int32_t row) {
  Team::fetch_add(faults, 1);
  // No row, -1, is the greatest of unsigned numbers.
  Team::fetch_least(reinterpret_cast<std::uint32_t&>(first_row), static_cast<std::uint32_t>(row));
}

/// Whether a row's query tokens are in order, within what is allowed and, where it has tokens, among these.
TRUNKLINE_HOST_DEVICE inline bool has_sound_queries(const TeamBatch& batch, std::int32_t row) {
  const std::int32_t begin = batch.query_start[row];
  const std::int32_t end = batch.query_start[row + 1];
  const std::int32_t kv_len = batch.kv_lens[row];
  if (row == 0 && begin != 0) return false;
  return begin >= 0 && begin <= end && end <= batch.max_queries && (kv_len <= 0 || end - begin <= kv_len);
}

/// Fills query_begin[i], of rows + 1, and counts faults.
template <class Block>
TRUNKLINE_HOST_DEVICE void copy_query_start(const TeamBatch& batch, std::int32_t i, std::int32_t* query_begin,
                                            TeamFaults& faults) {
  const bool given = batch.query_start != nullptr;
  query_begin[i] = given ? batch.query_start[i] : i;
  if (given && i < batch.rows && !has_sound_queries(batch, i)) {
    count_fault<Block>(faults.queries, faults.first_queries, i);
  }
}

/// Where any row's are wrong no row has a query: prefix sums are one whole.
template <class Block>
TRUNKLINE_HOST_DEVICE void drop_faulty_queries(Block& block, const TeamBatch& batch, std::int32_t* query_begin,
                                               const TeamFaults& faults) {
  if (faults.queries == 0) return;
  block.each(batch.rows + 1, [&](std::int32_t i) { query_begin[i] = 0; });
}

/// The values at the first faults, once all are counted. By one thread.
TRUNKLINE_HOST_DEVICE inline void name_faults(const TeamBatch& batch, TeamFaults& faults) {
  if (faults.lengths > 0) faults.length = batch.kv_lens[faults.first_length];
  if (faults.queries > 0) faults.query_start = batch.query_start[faults.first_queries + 1];
}

}  // namespace trunkline
