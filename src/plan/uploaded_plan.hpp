// A plan as kernels read it: with rows of the batch instead of slots.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trunkline/plan.hpp"

namespace trunkline {

/// Masks that plans of a capacity have at most: one a span, and one for each draft of a token tree in each item that
/// reads it, of trees of up to 256 tokens in tiles of 64 rows.
inline std::int64_t mask_capacity(const PlanCapacity& capacity, std::int32_t group_size) {
  constexpr std::int32_t kLargestTree = 256;
  constexpr std::int32_t kTileRows = 64;
  const std::int64_t item_queries = std::max(1, kTileRows / std::max(1, group_size));
  const std::int64_t items = (std::min(capacity.queries, kLargestTree) + item_queries - 1) / item_queries;
  return capacity.spans + capacity.queries * items;
}

/// How long the lists are. At the front of the workspace; changes with each upload, so that a captured graph follows.
struct ListCounts {
  std::int32_t items;
  std::int32_t item_queries;
  std::int32_t spans;
  std::int32_t merges;  // queries with partials
  /// Of the planner on the device that wrote the lists, which may keep them; 0: they were uploaded.
  std::uint64_t planner = 0;
};

/// A span with its request's row in the batch instead of its slot.
struct RowSpan {
  std::int32_t row;
  std::int32_t begin;
  std::int32_t end;
  std::int32_t mask;
  std::uint32_t flags;
};

/// A query with its request's row.
struct RowQuery {
  std::int32_t row;
  std::int32_t token;  // the query's row in Q and O
  std::int32_t from_end;
};

}  // namespace trunkline
