// A plan that is made while tiles are tried, with the tiles that the last plans took (tile_guess.hpp): all of it, so
// that nothing is left to do where the tries come to the same.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/host_device.hpp"
#include "plan/team/alike_requests.hpp"
#include "plan/team/few_tiles.hpp"
#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_status.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/team_items.hpp"
#include "plan/team/team_segments.hpp"
#include "plan/team/team_tiles.hpp"

namespace trunkline {

/// Trying tiles takes a third of the time, and a quarter of the blocks. So the others make a sketch. It is each block's
/// for itself, as for few tiles, without cuts, and made where requests are near and alike: so no block waits for
/// another.
template <class Team>
class PlanSketcher {
 public:
  /// \param is_made what may_make() says
  TRUNKLINE_HOST_DEVICE PlanSketcher(Team& team, const PlanTask& task, bool is_made)
      : team_(team), task_(task), is_made_(is_made) {}

  /// Whether some blocks make a sketch of a plan.
  TRUNKLINE_HOST_DEVICE static bool may_make(const Team& team, const PlanTask& task) {
    const std::int32_t rows = task.forest.rows;
    return task.memory.near != 0 && team.can_spare(triers(task)) && task.guess.is_likely(rows) &&
           task.forest.query_begin[rows] <= task.machine.capacity.queries;
  }

  /// Whether this block makes it. The only one of a team tries tiles besides.
  TRUNKLINE_HOST_DEVICE bool is_mine() const { return is_made_ && team_.spares(triers(task_)); }

  /// Makes it, and waits for those who try tiles. A function of its own on devices: who runs it runs little else.
  /// \param tell TeamPlanner::plan's, if the sketch is the plan \return whether it is
  template <class Tell>
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static bool make(Team& team, const PlanTask& task, const PlanLists& lists,
                                                               Tell tell) {
    return PlanSketcher(team, task, true).run(lists, tell);
  }

  /// Whether it has lists: where they are not the plan's, others are to be written over them only after one barrier
  /// more. Once all blocks know of it, as what follows.
  TRUNKLINE_HOST_DEVICE bool has_lists() const { return is_made_ && task_.block.state->sketch.made.by_try >= 0; }
  /// Whether it is the plan. \param number of the best try
  TRUNKLINE_HOST_DEVICE bool is_right(std::int32_t number) const {
    if (!is_made_ || task_.block.state->sketch.made.by_try != number) return false;
    const TriedTiles& tried = task_.block.state->tried[number];
    const TileGuess& guess = task_.guess;
    return tried.choice.fill.width == guess.width && tried.choice.tiles == guess.tiles && tried.other_begins == 0 &&
           tried.pieces == CutChoice::Pieces{};
  }
  /// By the block that leads it.
  template <class Tell>
  TRUNKLINE_HOST_DEVICE void tell_plan(Tell tell) const {
    const PlanTask& task = task_;
    if (!leads()) return;
    team_.own([&task, tell](auto&& block, bool) {
      block.each_at_last(1, [&task, tell](std::int32_t) { tell(task.block.state->sketch.status); });
    });
  }

 private:
  /// Blocks that try tiles, and so load requests for that.
  TRUNKLINE_HOST_DEVICE static std::int32_t triers(const PlanTask& task) {
    return most<std::int32_t>(task.machine.width_count, TrunkCore::kEarlyTries);
  }
  TRUNKLINE_HOST_DEVICE bool leads() const { return team_.leads(triers(task_)); }

  template <class Tell>
  TRUNKLINE_HOST_DEVICE bool run(const PlanLists& lists, Tell tell) const {
    const PlanTask& task = task_;
    const bool made = list() && divide();
    if (leads()) tell_of(made);
    if constexpr (Team::kOneBlock) {
      if (made) write(lists);
      return false;  // tiles are tried after it
    } else {
      // Others do not wait for lists to be written: whether they are the plan's depends on tries alone.
      team_.pass(leads(), [this, &lists, made] {
        if (made) write(lists);
      });
      std::int32_t number = 0;
      choose_tiles(task, number, [this](bool early, const TrunkChoice&) {
        if (early) team_.each(0, [](std::int32_t) {});
      });
      if (!is_right(number)) return false;
      tell_plan(tell);
      return true;
    }
  }
  TRUNKLINE_HOST_DEVICE void write(const PlanLists& lists) const {
    static_assert(FewTiles::kMost <= kScheduleChunk);  // so that there is no barrier in it
    const PlanTask& task = task_;
    const auto keep_status = [&task, &lists] {
      task.block.state->sketch.status = write_counts(task, lists, true, false, false);
    };
    write_lists(team_, task, lists, triers(task), false, keep_status, [] {});
  }

  /// \return whether requests are alike, and the block has room for what their tiles stream
  TRUNKLINE_HOST_DEVICE bool list() const {
    const PlanTask& task = task_;
    const bool leads = this->leads();
    bool listed = false;
    team_.own([&task, &listed, leads](auto&& block, bool) {
      using Block = std::decay_t<decltype(block)>;
      AlikeRequests<Block> requests(block, task);
      listed = requests.load();
      if (listed) FewTileLister<Block>(block, task).list_sketch(leads, requests.hot());
    });
    if (!listed || task.memory.shape[PlanMemory::kOwnTiles] == 0) return false;
    // Each segment makes a span or more.
    if (task.memory.shape[PlanMemory::kRaw] > task.machine.capacity.spans) return false;
    deal_lists(team_, task, true);
    return true;
  }
  TRUNKLINE_HOST_DEVICE bool divide() const {
    const PlanTask& task = task_;
    const bool leads = this->leads();
    bool fits = false;
    team_.own([&task, &fits, leads](auto&& block, bool) { fits = FewTileDivider(block, task).divide_sketch(leads); });
    return fits;
  }

  /// By the block that leads it. All know of it once tiles are tried.
  /// \param made it has lists
  TRUNKLINE_HOST_DEVICE void tell_of(bool made) const {
    const PlanTask& task = task_;
    team_.own([this, &task, made](auto&& block, bool) {
      PlanSketch& sketch = task.block.state->sketch;
      block.each_warp(1, [this, &task, &sketch, made](std::int32_t, auto&& lanes) {
        if (lanes.index() == 0) sketch.made.by_try = made ? task.guess.number : -1;
        lanes.wait();
        team_.tell_blocks(lanes, &sketch.made);
      });
    });
  }

  Team& team_;
  const PlanTask& task_;
  bool is_made_;  ///< by some blocks
};

}  // namespace trunkline
