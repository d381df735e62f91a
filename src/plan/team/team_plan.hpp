// The plan of a batch by a team: that of Planner with PlanOptions{.policy = Policy::kTrunk}, bit for bit, from a forest
// to the lists that kernels read. Without draft trees; the machine is a CUDA device, where nothing is hoisted.
// While tiles are tried, some blocks make a sketch of it (plan_sketch.hpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "plan/team/few_tiles.hpp"
#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_sketch.hpp"
#include "plan/team/plan_status.hpp"
#include "plan/team/team.hpp"
#include "plan/team/team_division.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_items.hpp"
#include "plan/team/team_machine.hpp"
#include "plan/team/team_packs.hpp"
#include "plan/team/team_requests.hpp"
#include "plan/team/team_segments.hpp"
#include "plan/team/team_spans.hpp"
#include "plan/team/team_tiles.hpp"

namespace trunkline {

template <class Team>
class TeamPlanner {
 public:
  /// Where the plan exceeds a capacity it is `flat` without cuts; where even that does, it has no items, and queries
  /// are not written. A function of its own on devices, so that it has all registers to itself.
  /// \param task forest.rows and its queries are within what memory has room for
  /// \param sketched PlanSketcher::may_make \param tell(status) by one thread: lists may not be written yet
  template <class Tell>
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static void plan(Team& team, const PlanTask& task, const PlanLists& lists,
                                                               bool sketched, Tell tell) {
    TeamPlanner(team, task, lists, sketched).make(tell);
    Team::leave();
  }

 private:
  TRUNKLINE_HOST_DEVICE TeamPlanner(Team& team, const PlanTask& task, const PlanLists& lists, bool sketched)
      : team_(team), task_(task), lists_(lists), sketch_(team, task, sketched) {}

  template <class Tell>
  TRUNKLINE_HOST_DEVICE void make(Tell tell) {
    Way way = Way::kTried;
    bool planned = false;
    if (sketch_.is_mine()) {
      if (PlanSketcher<Team>::make(team_, task_, lists_, tell)) return;
    } else if (task_.forest.query_begin[task_.forest.rows] > task_.machine.capacity.queries) {
      way = Way::kNone;
    }
    // One loop rather than calls: what devices run is waited for where it is not in a cache of theirs yet.
    for (;;) {
      planned = way != Way::kNone && list(way) && divide(way);
      if (way == Way::kSketched) {
        if constexpr (Team::kOneBlock) sketch_.tell_plan(may_close_early(HostLanes(), task_), tell);
        return;
      }
      if (way != Way::kTried || planned) break;
      way = Way::kAlone;
    }
    const bool cut = planned && task_.memory.shape[PlanMemory::kPartials] > 0;
    const auto tell_all = [this, planned, way, cut, tell] {
      tell(write_counts(task_, lists_, planned, cut, way == Way::kAlone));
    };
    const auto keep = [this, planned, way] { keep_guess(planned && way == Way::kTried); };
    if (planned) {
      write_lists(team_, task_, lists_, 0, cut, tell_all, keep);
      return write_schedule(team_, task_, lists_);
    }
    team_.once(tell_all);
    team_.once(keep);
  }

  enum class Way : std::uint8_t {
    kTried,     ///< the best of all tries
    kSketched,  ///< the sketch is the plan
    kAlone,     ///< `flat`
    kNone,      ///< not at all
  };

  TRUNKLINE_HOST_DEVICE void load_requests() {
    const PlanTask& task = task_;
    // The last of many blocks makes no try, and has time to tell others.
    team_.own([&task](auto&& block, bool last) { RequestLoader(block, task, last).load(); });
  }

  /// \param[in,out] way kTried: kSketched, where that is so
  TRUNKLINE_HOST_DEVICE bool list(Way& way) { return way == Way::kAlone ? list_alone() : list_tiles(way); }

  /// Tries all tiles. Those who have made a sketch have waited for that, and load requests after it.
  /// \param[out] choice unless the sketch is the plan \return number of the try; -1: the sketch is it
  TRUNKLINE_HOST_DEVICE std::int32_t choose(TrunkChoice& choice) {
    const PlanTask& task = task_;
    const bool has_sketched = !Team::kOneBlock && sketch_.is_mine();
    std::int32_t number = 0;
    bool loads = !has_sketched;
    for (bool chosen = false;; chosen = true) {  // so that there is the code of loading once
      if (loads) load_requests();
      if (chosen) return number;
      const auto attempt = [=, this, &task](bool early, const TrunkChoice& full) {
        if (!has_sketched) try_tiles(team_, task, early, full);
      };
      bool early = false;
      choice = choose_tiles(team_.lanes(), task, number, early, attempt);
      if (!has_sketched) {
        sketch_.wait_for_it(lists_, early);
        if (sketch_.is_right(number)) return -1;
      }
      loads = has_sketched || sketch_.was_made_alone();
      if (sketch_.may_be_written()) team_.each(0, [](std::int32_t) {});
      if (sketch_.is_mine()) forget_few();
    }
  }

  /// \return whether the plan may fit
  TRUNKLINE_HOST_DEVICE bool list_tiles(Way& way) {
    const PlanTask& task = task_;
    TrunkChoice choice;
    const std::int32_t number = choose(choice);
    if (number < 0) {
      way = Way::kSketched;
      return false;
    }
    const auto share_of = [this](std::int32_t tiles) { return team_.share(tiles, 0); };
    lead_or_own(PackLister<Team>::are_few(task, choice), [&task, &choice, share_of, number](auto&& block, bool few) {
      using Tiles = FewTileLister<std::decay_t<decltype(block)>>;
      if (few && Tiles::are_few(task, choice)) return Tiles(block, task).list(choice, number, share_of);
      if (few) block.once([&task] { task.memory.keep_few(*task.block.few); });
      PackLister(block, task).list_tiles(choice, number);
    });
    // Each segment makes a span or more.
    if (task.memory.shape[PlanMemory::kRaw] > task.machine.capacity.spans) return false;
    deal_lists(team_, task, 0, false, [](auto&&) {});
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

  /// Whether packs are few: of each block for itself. Once a barrier has made that known.
  TRUNKLINE_HOST_DEVICE bool are_few() const { return task_.memory.shape == task_.block.few->shape; }

  /// Lists are those of all blocks again.
  TRUNKLINE_HOST_DEVICE void forget_few() {
    const PlanTask& task = task_;
    if (!are_few()) return;
    team_.own([&task](auto&& block, bool) {
      block.each(0, [](std::int32_t) {});  // all have read the shape that did not fit
      block.once([&task] { task.memory.keep_all(task.all); });
    });
  }

  TRUNKLINE_HOST_DEVICE bool divide(Way way) {
    const PlanTask& task = task_;
    const bool cut = way != Way::kAlone;
    lead_or_own(are_few(), [&task, cut](auto&& block, bool) { PackDivider(block, task).divide(cut); });
    const std::int32_t* const shape = task.memory.shape;
    if (shape[PlanMemory::kFits] == 0) return false;
    if (shape[PlanMemory::kPartials] == 0) return true;
    return lay_out_cuts(team_, task, 0);
  }

  /// f(block, few) by each block for itself where packs are few; else by one for all.
  template <class F>
  TRUNKLINE_HOST_DEVICE void lead_or_own(bool few, F f) {
    if (few) {
      team_.own([f](auto&& block, bool) { f(block, true); });
    } else {
      team_.lead([f](auto&& block) { f(block, false); });
    }
  }

  /// By one thread.
  TRUNKLINE_HOST_DEVICE void keep_guess(bool tried) const {
    const PlanTask& task = task_;
    const std::int32_t* const shape = task.memory.shape;
    const ChosenCuts& chosen = task.block.state->chosen;
    const bool known = tried && are_few() && shape[PlanMemory::kFewTiles] != 0 && shape[PlanMemory::kAsTried] != 0 &&
                       FewItems::are_few(shape) &&
                       (shape[PlanMemory::kPartials] > 0) != (chosen.pieces == CutChoice::Pieces{}) && are_alike();
    const auto learn = [&task, &chosen] {
      const std::int32_t round =
          CutChoice::round_of(chosen.pieces, task.block.state->tried[chosen.number].choice.ideal);
      return task.guess.learn({chosen.number, chosen.width, chosen.tiles}, task.begins_of(chosen.number, chosen.tiles),
                              round, may_close_early(HostLanes(), task));
    };
    const bool is_new = known ? learn() : task.guess.forget();
    if (is_new) *task.memory.guess = task.guess;
  }
  /// AlikeRequests, once they are loaded and tiles hold all of them.
  TRUNKLINE_HOST_DEVICE bool are_alike() const {
    const std::int32_t rows = task_.forest.rows;
    return rows > 0 && task_.memory.tails_before[rows] == 0 && task_.block.state->widest == 1 &&
           task_.forest.query_begin[rows] == rows;
  }

  Team& team_;
  const PlanTask& task_;
  const PlanLists& lists_;
  const PlanSketcher<Team> sketch_;
};

}  // namespace trunkline
