// The lists of a plan as kernels read them. A list is added here, and in PlanSizes if its length is new: workspaces,
// kernel arguments, the device planner and tests follow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/plan_sizes.hpp"
#include "plan/uploaded_plan.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// One field for each list. \tparam Of what a field holds for a list of T: a pointer, an offset, a vector
template <template <class T> class Of>
struct PlanListsOf {
  Of<RowQuery> queries{};
  Of<WorkItem> items{};
  Of<std::int32_t> item_queries{};
  Of<std::int32_t> item_outputs{};
  Of<RowSpan> spans{};
  Of<std::int32_t> merge_queries{};
  Of<std::int32_t> merge_begin{};
  Of<std::int32_t> merge_slots{};
  Of<std::int32_t> partial_merges{};  ///< of each partial, its query's index in merge_queries; MergeMode::kFused only
  Of<std::int32_t> schedule{};
  Of<std::uint64_t> masks{};  ///< [masks, 2]
};

struct PlanListInfo {
  const char* name;
  std::size_t entries;
  std::size_t entry_bytes;
};

/// Calls visit(PlanListInfo, field...) for each list with its fields in `lists`, in the order in which lists lie in a
/// workspace. Masks are last, so that an upload is one copy of the bytes that are used.
/// \param sizes of a plan, or capacities for plans
template <class Visit, class... Lists>
void for_each_list(const PlanSizes& sizes, Visit&& visit, Lists&&... lists) {
  visit(PlanListInfo{"queries", sizes.queries, sizeof(RowQuery)}, lists.queries...);
  visit(PlanListInfo{"items", sizes.items, sizeof(WorkItem)}, lists.items...);
  visit(PlanListInfo{"item_queries", sizes.item_queries, sizeof(std::int32_t)}, lists.item_queries...);
  visit(PlanListInfo{"item_outputs", sizes.item_queries, sizeof(std::int32_t)}, lists.item_outputs...);
  visit(PlanListInfo{"spans", sizes.spans, sizeof(RowSpan)}, lists.spans...);
  visit(PlanListInfo{"merge_queries", sizes.merge_queries, sizeof(std::int32_t)}, lists.merge_queries...);
  visit(PlanListInfo{"merge_begin", sizes.merge_queries + 1, sizeof(std::int32_t)}, lists.merge_begin...);
  visit(PlanListInfo{"merge_slots", sizes.merge_slots, sizeof(std::int32_t)}, lists.merge_slots...);
  visit(PlanListInfo{"partial_merges", sizes.partials, sizeof(std::int32_t)}, lists.partial_merges...);
  visit(PlanListInfo{"schedule", sizes.items, sizeof(std::int32_t)}, lists.schedule...);
  visit(PlanListInfo{"masks", 2 * sizes.masks, sizeof(std::uint64_t)}, lists.masks...);
}

template <class T>
using WrittenList = T*;
/// Where a device planner writes.
struct PlanLists : PlanListsOf<WrittenList> {
  ListCounts* counts = nullptr;
};

}  // namespace trunkline
