// The items of a plan as rectangles of queries x tokens; items that look alike are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/task_costs.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::report {

/// Tokens that an item streams in a row, and which of its queries see them. A span of draft tokens counts as seen by
/// every query that sees some of it.
struct ShapeSpan {
  std::int64_t tokens = 0;
  std::vector<Range> readers;  ///< of the item's queries, rising
  bool operator==(const ShapeSpan&) const = default;
};

struct ItemShape {
  std::int32_t items = 0;  ///< that look so
  std::int32_t item = 0;   ///< the first of them in the schedule
  std::int32_t queries = 0;
  std::int32_t partials = 0;    ///< queries of one whose output needs a merge
  std::int32_t first_half = 0;  ///< as WorkItem's
  std::int32_t rows = 0;        ///< that the kernel computes, of each half where there are two
  TileShape tile;
  std::int64_t tokens = 0;  ///< of one
  Nanoseconds cost = 0;     ///< of one in one KV head, predicted
  std::vector<ShapeSpan> spans;
};

struct ItemShapes {
  std::vector<ItemShape> shapes;  ///< by the place of their first item in the schedule, so the costliest first
  std::int64_t other_items = 0;   ///< beyond the limits
  std::int64_t other_tokens = 0;
  Nanoseconds other_cost = 0;
};

/// Limits of what is drawn of one plan.
inline constexpr std::size_t kDrawnShapes = 2000;
inline constexpr std::size_t kDrawnSpans = 12000;

/// \param item_costs [items] of each item in one KV head
/// \param costs what the kernels pad rows to
ItemShapes item_shapes(const Plan& plan, const Forest& forest, std::span<const Nanoseconds> item_costs,
                       const TaskCosts& costs, std::size_t max_shapes = kDrawnShapes,
                       std::size_t max_spans = kDrawnSpans);

}  // namespace trunkline::report
