// The plan of a batch by a team: that of Planner with PlanOptions{.policy = Policy::kTrunk}, bit for bit, from a forest
// to the lists that kernels read. Without draft trees; the machine is a CUDA device, where nothing is hoisted.
#pragma once

#include <cstdint>
#include <type_traits>

#include "plan/team/few_tiles.hpp"
#include "plan/team/plan_growth.hpp"
#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_division.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_items.hpp"
#include "plan/team/team_machine.hpp"
#include "plan/team/team_packs.hpp"
#include "plan/team/team_segments.hpp"
#include "plan/team/team_spans.hpp"
#include "plan/team/team_tiles.hpp"

namespace trunkline {

template <class Team>
class TeamPlanner {
 public:
  /// \param task forest.rows and its queries are within what memory has room for
  TRUNKLINE_HOST_DEVICE TeamPlanner(Team& team, const PlanTask& task, const PlanLists& lists)
      : team_(team), task_(task), lists_(lists) {}

  /// Where the plan exceeds a capacity it is `flat` without cuts; where even that does, it has no items, and queries
  /// are not written. A function of its own on devices, so that it has all registers to itself. \param tell(status) by
  /// one thread: lists may not be written yet
  template <class Tell>
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE void plan(Tell tell) {
    const std::int32_t queries = task_.forest.query_begin[task_.forest.rows];
    bool planned = false;
    bool alone = false;
    if (queries <= task_.machine.capacity.queries) {
      // One loop rather than two calls: what devices run is waited for where it is not in a cache of theirs yet.
      for (;; alone = true) {
        planned = (alone ? list_alone() : list_tiles()) && divide(!alone);
        if (planned || alone) break;
      }
    }
    const auto tell_all = [this, planned, alone, tell] { tell(write_counts(task_, lists_, planned, alone)); };
    if (planned) {
      write_lists(team_, task_, lists_, tell_all);
    } else {
      team_.once(tell_all);
    }
  }

 private:
  /// \return whether the plan may fit
  TRUNKLINE_HOST_DEVICE bool list_tiles() {
    const PlanTask& task = task_;
    std::int32_t number = 0;
    const TrunkChoice choice = choose_tiles(team_, task, number);
    few_ = PackLister<Team>::are_few(task, choice);
    lead_or_own([&task, &choice, number](auto&& block, bool few) {
      using Tiles = FewTileLister<std::decay_t<decltype(block)>>;
      if (few && Tiles::are_few(task, choice)) return Tiles(block, task).list(choice, number);
      if (few) block.once([&task] { task.memory.keep_few(*task.block.few); });
      PackLister(block, task).list_tiles(choice, number);
    });
    // Each segment makes a span or more.
    if (task.memory.shape[PlanMemory::kRaw] > task.machine.capacity.spans) return false;
    deal_lists(team_, task);
    return true;
  }

  /// `flat`.
  TRUNKLINE_HOST_DEVICE bool list_alone() {
    const PlanTask& task = task_;
    if (few_) {
      team_.own([&task](auto&& block, bool) {
        block.each(0, [](std::int32_t) {});  // all have read the shape that did not fit
        block.once([&task] { task.memory.keep_all(); });
      });
    }
    few_ = false;
    place_queries(team_, task);
    team_.lead([&task](auto&& block) { PackLister(block, task).list_alone(0, 0); });
    return true;
  }

  TRUNKLINE_HOST_DEVICE bool divide(bool cut) {
    const PlanTask& task = task_;
    lead_or_own([&task, cut](auto&& block, bool) { PackDivider(block, task).divide(cut); });
    if (task.memory.shape[PlanMemory::kFits] == 0) return false;
    if (task.memory.shape[PlanMemory::kPartials] == 0) return true;
    place_items(team_, task);
    mark_cuts(team_, task);
    team_.lead([&task](auto&& block) { place_partials(block, task); });
    return task.memory.cuts->fits != 0;
  }

  /// f(block, few) by each block for itself where packs are few; else by one for all.
  template <class F>
  TRUNKLINE_HOST_DEVICE void lead_or_own(F f) {
    if (few_) {
      team_.own([f](auto&& block, bool) { f(block, true); });
    } else {
      team_.lead([f](auto&& block) { f(block, false); });
    }
  }

  /// How long lists are. By one thread. \param planned has items; else the lists are empty
  TRUNKLINE_HOST_DEVICE static TeamPlanStatus write_counts(const PlanTask& task, const PlanLists& lists, bool planned,
                                                           bool fell_back) {
    const std::int32_t* const shape = task.memory.shape;
    TeamPlanStatus status = *task.memory.status;
    const bool cut = planned && shape[PlanMemory::kPartials] > 0;
    const CutShape cuts = cut ? *task.memory.cuts : CutShape{};
    ListCounts counts{};
    if (planned) {
      counts = {shape[PlanMemory::kItems], shape[PlanMemory::kEntries], shape[PlanMemory::kFragments] + cuts.splits,
                cuts.merges};
    }
    status.items = counts.items;
    status.spans = counts.spans;
    status.partials = planned ? shape[PlanMemory::kPartials] : 0;
    status.masks = planned ? shape[PlanMemory::kMasks] + cuts.masked_splits : 0;
    status.fallbacks = fell_back ? 1 : 0;
    status.unplanned = planned ? 0 : 1;
    status.growth = planned ? growth_of(task) : PlanGrowth::kUnlimited;
    if (!planned) status.total_tokens = status.distinct_tokens = status.read_tokens = 0;
    *lists.counts = counts;
    *task.memory.of_all.status = status;
    lists.merge_begin[counts.merges] = status.partials;
    return status;
  }

  TRUNKLINE_HOST_DEVICE static std::int32_t growth_of(const PlanTask& task) {
    const PlanMemory& memory = task.memory;
    return PlanGrowth::limit(memory.shape[PlanMemory::kOpenEnds], task.block.state->full,
                             memory.shape[PlanMemory::kItems], *memory.costs);
  }

  Team& team_;
  const PlanTask& task_;
  const PlanLists& lists_;
  bool few_ = false;  ///< FewPacks
};

}  // namespace trunkline
