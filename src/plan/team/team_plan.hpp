// The plan of a batch by a team: that of Planner with PlanOptions{.policy = Policy::kTrunk}, bit for bit, from a forest
// to the lists that kernels read. Without draft trees; the machine is a CUDA device, where nothing is hoisted.
//
// Trying tiles takes a third of the time, and a quarter of the blocks. So the other blocks take the tiles to be those
// that the last plans took (tile_guess.hpp), and go on: see begin_sketch().
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
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE void plan(Tell tell) const {
    TeamPlanner(*this).make(tell);  // a copy, whose members devices have in registers
  }

 private:
  template <class Tell>
  TRUNKLINE_HOST_DEVICE void make(Tell tell) {
    Way way = Way::kTried;
    bool planned = false;
    if (task_.forest.query_begin[task_.forest.rows] > task_.machine.capacity.queries) {
      way = Way::kNone;
    } else {
      load_requests();
      begin_sketch();
      if (sketch_ != SketchPart::kNone) way = Way::kSketch;
    }
    // One loop rather than calls: what devices run is waited for where it is not in a cache of theirs yet.
    for (;;) {
      planned = way != Way::kNone && list(way) && divide(way);
      if (is_done_) return tell_sketch(tell);
      if (way == Way::kTried && !planned) {
        way = Way::kAlone;
        continue;
      }
      const auto tell_all = [this, planned, way, tell] {
        const TeamPlanStatus status = write_counts(planned, way);
        if (way == Way::kSketch) {
          task_.block.state->sketch.status = status;
        } else {
          tell(status);
        }
      };
      const auto keep = [this, planned, way] {
        if (way != Way::kSketch) keep_guess(planned, way);
      };
      if (way == Way::kSketch) tell_of_sketch(planned);
      if (planned)
        write_lists(team_, task_, lists_, way == Way::kSketch ? task_.machine.width_count : 0, tell_all, keep);
      if (way != Way::kSketch) {
        if (!planned) {
          team_.once(tell_all);
          team_.once(keep);
        }
        return;
      }
      way = Way::kTried;
    }
  }

  enum class Way : std::uint8_t {
    kSketch,  ///< as the last plans, by blocks that try no tiles, while others do
    kTried,   ///< the best of all tries
    kAlone,   ///< `flat`
    kNone,    ///< not at all
  };

  TRUNKLINE_HOST_DEVICE void load_requests() {
    const PlanTask& task = task_;
    // The last of many blocks makes no try, and has time to tell others.
    team_.own([&task](auto&& block, bool last) { RequestLoader(block, task, last).load(); });
  }

  /// While some blocks try tiles, the others make a sketch of the plan, with the tiles that the last plans took,
  /// without cuts: all of it, so that nothing is left to do where the tries come to the same. It is each block's for
  /// itself, as for few tiles, and made where requests are near: so no block waits for another.
  TRUNKLINE_HOST_DEVICE void begin_sketch() {
    const std::int32_t widths = task_.machine.width_count;
    is_sketched_ = task_.memory.near != 0 && team_.can_spare(widths) && task_.guess.is_likely(task_.forest.rows) &&
                   task_.block.state->requests.count == task_.forest.rows;
    if (!is_sketched_ || !team_.spares(widths)) return;
    sketch_ = team_.leads(widths) ? SketchPart::kLeads : SketchPart::kFollows;
  }
  /// By the block that leads it. All know of it once tiles are tried, and it is written then.
  /// \param made it has lists
  TRUNKLINE_HOST_DEVICE void tell_of_sketch(bool made) {
    const PlanTask& task = task_;
    if (sketch_ != SketchPart::kLeads) return;
    team_.own([this, &task, made](auto&& block, bool) {
      PlanSketch& sketch = task.block.state->sketch;
      block.each_warp(1, [this, &task, &sketch, made](std::int32_t, auto&& lanes) {
        if (lanes.index() == 0) sketch.made.by_try = made ? task.guess.number : -1;
        lanes.wait();
        team_.tell_blocks(lanes, &sketch.made);
      });
    });
  }
  /// Whether the sketch is the plan, once all blocks know of it.
  TRUNKLINE_HOST_DEVICE bool is_right(std::int32_t number) const {
    const BlockMemory::State& state = *task_.block.state;
    return is_sketched_ && state.sketch.made.by_try == number && state.tried[number].pieces == CutChoice::Pieces{};
  }
  template <class Tell>
  TRUNKLINE_HOST_DEVICE void tell_sketch(Tell tell) {
    if (sketch_ != SketchPart::kLeads) return;
    const PlanTask& task = task_;
    team_.own([&task, tell](auto&& block, bool) {
      block.each_at_last(1, [&task, tell](std::int32_t) { tell(task.block.state->sketch.status); });
    });
  }

  TRUNKLINE_HOST_DEVICE bool list(Way way) { return way == Way::kAlone ? list_alone() : list_tiles(way); }

  /// \return whether the plan may fit
  TRUNKLINE_HOST_DEVICE bool list_tiles(Way way) {
    const PlanTask& task = task_;
    if (way == Way::kSketch) {
      few_ = true;
      const SketchPart part = sketch_;
      team_.own([&task, part](auto&& block, bool) {
        FewTileLister<std::decay_t<decltype(block)>>(block, task).list_sketch(part);
      });
      if (task.memory.shape[PlanMemory::kOwnTiles] == 0) return false;
    } else {
      std::int32_t number = 0;
      const TrunkChoice choice = choose_tiles(team_, task, number);
      is_done_ = is_right(number);
      if (is_done_) return false;
      forget_few();
      number_ = number;
      few_ = PackLister<Team>::are_few(task, choice);
      lead_or_own([&task, &choice, number](auto&& block, bool few) {
        using Tiles = FewTileLister<std::decay_t<decltype(block)>>;
        if (few && Tiles::are_few(task, choice)) return Tiles(block, task).list(choice, number);
        if (few) block.once([&task] { task.memory.keep_few(*task.block.few); });
        PackLister(block, task).list_tiles(choice, number);
      });
    }
    // Each segment makes a span or more.
    if (task.memory.shape[PlanMemory::kRaw] > task.machine.capacity.spans) return false;
    deal_lists(team_, task);
    return true;
  }

  /// `flat`.
  TRUNKLINE_HOST_DEVICE bool list_alone() {
    const PlanTask& task = task_;
    forget_few();
    place_queries(team_, task);
    team_.lead([&task](auto&& block) { PackLister(block, task).list_alone(0, 0); });
    return true;
  }

  /// Lists are those of all blocks again.
  TRUNKLINE_HOST_DEVICE void forget_few() {
    const PlanTask& task = task_;
    if (few_) {
      team_.own([&task](auto&& block, bool) {
        block.each(0, [](std::int32_t) {});  // all have read the shape that did not fit
        block.once([&task] { task.memory.keep_all(); });
      });
    }
    few_ = false;
  }

  TRUNKLINE_HOST_DEVICE bool divide(Way way) {
    const PlanTask& task = task_;
    const bool cut = way != Way::kAlone;
    const SketchPart part = way == Way::kSketch ? sketch_ : SketchPart::kNone;
    lead_or_own([&task, cut, part](auto&& block, bool) { PackDivider(block, task).divide(cut, part); });
    const std::int32_t* const shape = task.memory.shape;
    if (part == SketchPart::kLeads && (shape[PlanMemory::kAsTried] & task.block.state->sketch.right) == 0) return false;
    if (part != SketchPart::kNone) return shape[PlanMemory::kFits] == 1;
    if (shape[PlanMemory::kFits] == 0) return false;
    if (shape[PlanMemory::kPartials] == 0) return true;
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
  TRUNKLINE_HOST_DEVICE TeamPlanStatus write_counts(bool planned, Way way) const {
    const PlanTask& task = task_;
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
    status.fallbacks = way == Way::kAlone ? 1 : 0;
    status.unplanned = planned ? 0 : 1;
    status.growth = planned ? growth_of(task) : PlanGrowth::kUnlimited;
    if (!planned) status.total_tokens = status.distinct_tokens = status.read_tokens = 0;
    *lists_.counts = counts;
    *task.memory.of_all.status = status;
    lists_.merge_begin[counts.merges] = status.partials;
    return status;
  }

  /// By one thread.
  TRUNKLINE_HOST_DEVICE void keep_guess(bool planned, Way way) const {
    const PlanTask& task = task_;
    const std::int32_t* const shape = task.memory.shape;
    const bool known = planned && way == Way::kTried && few_ && shape[PlanMemory::kFewTiles] != 0 &&
                       shape[PlanMemory::kOwnTiles] != 0 && shape[PlanMemory::kAsTried] != 0 &&
                       task.block.state->chosen.pieces == CutChoice::Pieces{} &&
                       TileGuess::is_known_ahead(number_, task.machine);
    const ChosenCuts& chosen = task.block.state->chosen;
    const bool is_new =
        known ? task.guess.learn(number_, chosen.width, chosen.tiles, task.begins_of(number_, chosen.tiles))
              : task.guess.forget();
    if (is_new) *task.memory.guess = task.guess;
  }
  TRUNKLINE_HOST_DEVICE static std::int32_t growth_of(const PlanTask& task) {
    const PlanMemory& memory = task.memory;
    return PlanGrowth::limit(memory.shape[PlanMemory::kOpenEnds], task.block.state->full,
                             memory.shape[PlanMemory::kItems], *memory.costs);
  }

  Team& team_;
  const PlanTask& task_;
  const PlanLists& lists_;
  bool few_ = false;          ///< FewPacks
  bool is_sketched_ = false;  ///< some blocks make a sketch
  bool is_done_ = false;      ///< which is the plan
  std::int32_t number_ = 0;   ///< of the try whose tiles are listed
  SketchPart sketch_ = SketchPart::kNone;
};

}  // namespace trunkline
