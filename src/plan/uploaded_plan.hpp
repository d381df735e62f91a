// A plan as kernels read it: with rows of the batch instead of slots.
#pragma once

#include <cstdint>

namespace trunkline {

/// How long the lists are. At the front of the workspace; changes with each upload, so that a captured graph follows.
struct ListCounts {
  std::int32_t items;
  std::int32_t item_queries;
  std::int32_t spans;
  std::int32_t merges;  // queries with partials
  /// Identifies the planner on the device that wrote the lists, and may keep them; 0: the lists were uploaded.
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
