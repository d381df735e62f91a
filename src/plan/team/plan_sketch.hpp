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
/// for itself, as for few tiles and items, and made where requests are near and alike: so no block waits for another.
template <class Team>
class PlanSketcher {
 public:
  /// \param is_made what may_make() says
  TRUNKLINE_HOST_DEVICE PlanSketcher(Team& team, const PlanTask& task, bool is_made)
      : team_(team), task_(task), is_made_(is_made) {}

  /// Whether some blocks make a sketch of a plan.
  TRUNKLINE_HOST_DEVICE static bool may_make(const Team& team, const PlanTask& task) {
    // All is read at once, as below: what is read only where all before it holds is waited for by itself.
    const std::int32_t rows = task.forest.rows;
    const bool near = task.memory.near != 0;
    const bool is_likely = task.guess.is_likely(rows);
    const bool fit = task.forest.query_begin[rows] <= task.machine.capacity.queries;
    return team.can_spare(triers(task)) && near && is_likely && fit;
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

  /// Whether blocks may still be writing it: where it is not the plan, another is to be made over it only after one
  /// barrier more. Once all blocks know of it, as what follows. \param early tiles that are closed early were tried
  TRUNKLINE_HOST_DEVICE bool may_be_written(bool early) const {
    return is_made_ && (!is_told(early) || task_.block.state->sketch.made.by_try >= 0);
  }
  /// Whether it is the plan. \param number of the best try
  TRUNKLINE_HOST_DEVICE bool is_right(std::int32_t number, bool early) const {
    if (!is_told(early) || number < 0) return false;
    const TriedTiles& tried = task_.block.state->tried[number];
    const PlanSketch::Made made = task_.block.state->sketch.made;
    const std::int32_t width = tried.choice.fill.width;
    const std::int32_t tiles = tried.choice.tiles;
    const bool same_begins = tried.other_begins == 0;
    const CutChoice::Pieces pieces = tried.pieces;
    const TileGuess::Tiles guess = task_.guess.tiles;
    return made.by_try == number && width == guess.width && tiles == guess.count && same_begins &&
           pieces == CutChoice::Pieces{made.cost, made.longer != 0};
  }
  /// By the block that has its status. \param early tiles that are closed early were tried: so the next sketch is late
  template <class Tell>
  TRUNKLINE_HOST_DEVICE void tell_plan(bool early, Tell tell) const {
    const PlanTask& task = task_;
    team_.own([&task, early, tell](auto&& block, bool last) {
      if (!last) return;
      block.each_at_last(1, [&task, early, tell](std::int32_t) {
        tell(task.block.state->sketch.status);
        if (early && !is_late(task)) task.memory.guess->tiles.early = 1;
      });
    });
  }

 private:
  /// Blocks that try tiles, and so load requests for that.
  TRUNKLINE_HOST_DEVICE static std::int32_t triers(const PlanTask& task) {
    return most<std::int32_t>(task.machine.width_count, TrunkCore::kEarlyTries);
  }
  TRUNKLINE_HOST_DEVICE bool leads() const { return team_.leads(triers(task_)); }
  /// Whether tiles that are closed early are likely to be tried after full ones: then it is told of with those, and
  /// nobody waits for it before.
  TRUNKLINE_HOST_DEVICE static bool is_late(const PlanTask& task) { return task.guess.tiles.early != 0; }
  TRUNKLINE_HOST_DEVICE bool is_told(bool early) const { return is_made_ && (early || !is_late(task_)); }

  template <class Tell>
  TRUNKLINE_HOST_DEVICE bool run(const PlanLists& lists, Tell tell) const {
    const PlanTask& task = task_;
    bool made = false;
    team_.pass_where(is_late(task), [this, &made] { made = list() && divide(); });
    if constexpr (Team::kOneBlock) {
      tell_of(made);
      if (made) write(lists);
      return false;  // tiles are tried after it
    } else {
      // Others do not wait for lists to be written: whether they are the plan's depends on tries alone.
      if (!is_late(task) || may_close_early(team_.lanes(), task)) {
        if (leads()) tell_of(made);
        team_.pass(leads(), [this, &lists, made] {
          if (made) write(lists);
        });
      }
      std::int32_t number = 0;
      bool early = false;
      choose_tiles(team_.lanes(), task, number, early, [this, &task](bool attempts_early, const TrunkChoice&) {
        if (attempts_early && !is_late(task)) team_.each(0, [](std::int32_t) {});
      });
      if (!is_right(number, early)) return false;
      tell_plan(early, tell);
      return true;
    }
  }
  /// Lays out what is cut, and writes all lists.
  TRUNKLINE_HOST_DEVICE void write(const PlanLists& lists) const {
    if (task_.memory.shape[PlanMemory::kPartials] > 0) return write_cut(team_, task_, lists);
    write(team_, task_, lists, false);
  }
  /// A function of its own, so that sketches without cuts run past none of it.
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static void write_cut(Team& team, const PlanTask& task,
                                                                    const PlanLists& lists) {
    lay_out_cuts(team, task, triers(task));
    write(team, *Team::forgotten(&task), lists, true);
  }
  /// \param cut some items are
  TRUNKLINE_HOST_DEVICE static void write(Team& team, const PlanTask& task, const PlanLists& lists, bool cut) {
    static_assert(FewTiles::kMost <= kScheduleChunk && FewItems::kMost <= kScheduleChunk);  // no barrier is in it
    const auto keep_status = [&task, &lists, cut] {
      task.block.state->sketch.status = write_counts(task, lists, true, cut, false);
    };
    write_lists(team, task, lists, triers(task), cut, keep_status, [] {});
  }

  /// \return whether requests are alike, and the block has room for what their tiles stream
  TRUNKLINE_HOST_DEVICE bool list() const {
    const PlanTask& task = task_;
    bool listed = false;
    const auto share_of = [this, &task](std::int32_t tiles) { return team_.share(tiles, triers(task)); };
    // The last block writes the schedule, and tells of the plan.
    team_.own([&task, &listed, share_of](auto&& block, bool last) {
      using Block = std::decay_t<decltype(block)>;
      const bool priced = last || task.guess.tiles.round >= 0;
      AlikeRequests<Block> requests(block, task);
      listed = requests.load();
      if (listed) FewTileLister<Block>(block, task).list_sketch(priced, requests.hot(), share_of);
    });
    if (!listed || task.memory.shape[PlanMemory::kOwnTiles] == kNoTiles) return false;
    // Each segment makes a span or more.
    if (task.memory.shape[PlanMemory::kRaw] > task.machine.capacity.spans) return false;
    deal_lists(team_, task, triers(task));
    return true;
  }
  TRUNKLINE_HOST_DEVICE bool divide() const {
    const PlanTask& task = task_;
    if (task.guess.tiles.round >= 0) return cut(team_, task);
    bool fits = false;
    team_.own([&task, &fits](auto&& block, bool last) { fits = FewTileDivider(block, task).divide_sketch(last); });
    return fits;
  }
  /// A function of its own, as write_cut(). That lays items out only once others are told of the sketch, so that how
  /// many spans there will be is not known here: each item may add one. \return whether so many fit
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static bool cut(Team& team, const PlanTask& task) {
    bool fits = false;
    team.own([&task, &fits](auto&& block, bool) { fits = FewTileDivider(block, task).cut_sketch(); });
    const std::int32_t* const shape = task.memory.shape;
    return fits && shape[PlanMemory::kPartials] > 0 && FewItems::are_few(shape) &&
           std::int64_t{shape[PlanMemory::kFragments]} + shape[PlanMemory::kItems] <= task.machine.capacity.spans;
  }

  /// By the block that leads it. All know of it once tiles are tried.
  /// \param made it has lists
  TRUNKLINE_HOST_DEVICE void tell_of(bool made) const {
    const PlanTask& task = task_;
    team_.own([this, &task, made](auto&& block, bool) {
      PlanSketch& sketch = task.block.state->sketch;
      block.each_warp(1, [this, &task, &sketch, made](std::int32_t, auto&& lanes) {
        const bool cut = made && task.guess.tiles.round >= 0;
        const CutChoice::Pieces pieces = cut ? sketch.pieces : CutChoice::Pieces{};
        if (lanes.index() == 0) {
          sketch.made = {made ? task.guess.tiles.number : -1, pieces.longer ? 1 : 0, pieces.cost};
        }
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
