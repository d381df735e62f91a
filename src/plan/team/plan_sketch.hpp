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
#include "plan/team/sketch_cuts.hpp"
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

  /// By those who try tiles, once these are tried: until all know of a sketch that is late. The only block of a team
  /// makes it then. \param early tiles that are closed early were tried
  TRUNKLINE_HOST_DEVICE void wait_for_it(const PlanLists& lists, bool early) const {
    if (!is_made_ || !is_late(task_)) return;
    if constexpr (Team::kOneBlock) {
      make_alone(team_, task_, lists, early || !is_early(task_));
    } else if (is_early(task_) || !early) {
      team_.pass(false, [] {});
    }
  }
  /// Whether requests were loaded for it after those who try tiles had done so, by the same block.
  TRUNKLINE_HOST_DEVICE bool was_made_alone() const { return Team::kOneBlock && is_made_ && is_late(task_); }
  /// Whether blocks may still be writing it: where it is not the plan, another is to be made over it only after one
  /// barrier more. Once all blocks know of it, as what follows.
  TRUNKLINE_HOST_DEVICE bool may_be_written() const { return is_made_ && task_.block.state->sketch.made.by_try >= 0; }
  /// Whether it is the plan. \param number of the best try
  TRUNKLINE_HOST_DEVICE bool is_right(std::int32_t number) const {
    if (!is_made_ || number < 0) return false;
    const CutChoice::Pieces pieces = task_.block.state->tried[number].pieces;
    const PlanSketch::Made made = task_.block.state->sketch.made;
    return made.by_try == number && has_tiles_of(number) && pieces == CutChoice::Pieces{made.cost, made.longer != 0};
  }
  /// By the block that has its status. \param early tiles that are closed early were tried
  template <class Tell>
  TRUNKLINE_HOST_DEVICE void tell_plan(bool early, Tell tell) const {
    const PlanTask& task = task_;
    team_.own([&task, early, tell](auto&& block, bool last) {
      if (!last) return;
      block.each_at_last(1, [&task, early, tell](std::int32_t) {
        tell(task.block.state->sketch.status);
        if (!early && !is_late(task)) return;  // all is as is guessed
        const TriedTiles& tried = task.block.state->tried[task.guess.tiles.number];
        const std::int32_t round = CutChoice::round_of(tried.pieces, tried.choice.ideal);
        if (!task.guess.learn_cuts(round, early)) return;
        task.memory.guess->round = task.guess.round;
        task.memory.guess->late = task.guess.late;
      });
    });
  }

 private:
  /// Blocks that try tiles, and so load requests for that.
  TRUNKLINE_HOST_DEVICE static std::int32_t triers(const PlanTask& task) {
    return most<std::int32_t>(task.machine.width_count, TrunkCore::kEarlyTries);
  }
  TRUNKLINE_HOST_DEVICE bool leads() const { return team_.leads(triers(task_)); }
  /// Whether it is likely to be cut in another way than is guessed, as the try at its tiles says, or to be held up by
  /// tiles that are closed early: then others are told of it one barrier after these tries.
  TRUNKLINE_HOST_DEVICE static bool is_late(const PlanTask& task) { return task.guess.late > 0 || is_early(task); }
  /// Whether the tiles that it has were closed early, so that these tries are waited for, too.
  TRUNKLINE_HOST_DEVICE static bool is_early(const PlanTask& task) {
    return task.guess.tiles.number >= task.machine.width_count;
  }
  /// Whether a try came to its tiles.
  TRUNKLINE_HOST_DEVICE bool has_tiles_of(std::int32_t number) const {
    const TriedTiles& tried = task_.block.state->tried[number];
    const TileGuess::Tiles guess = task_.guess.tiles;
    const std::int32_t width = tried.choice.fill.width;
    const std::int32_t tiles = tried.choice.tiles;
    const bool same_begins = tried.other_begins == 0;
    return width == guess.width && tiles == guess.count && same_begins;
  }

  /// One that is late, by the only block. \param tried its tiles may have been
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static void make_alone(Team& team, const PlanTask& task,
                                                                     const PlanLists& lists, bool tried) {
    const PlanSketcher sketcher(team, task, true);
    const bool made = tried && sketcher.list(true) && sketcher.place_as_tried();
    sketcher.tell_of(made, true);
    if (made) sketcher.write(lists);
  }

  template <class Tell>
  TRUNKLINE_HOST_DEVICE bool run(const PlanLists& lists, Tell tell) const {
    const PlanTask& task = task_;
    if constexpr (Team::kOneBlock) {  // which tries tiles after it
      if (is_late(task)) return false;
      const bool cuts = task.guess.round >= 0;
      const bool made = list(cuts) && (cuts ? place(team_, task, nullptr) : divide());
      tell_of(made, false);
      if (made) write(lists);
      return false;
    } else {
      const bool late = is_late(task);
      const bool cuts = late || task.guess.round >= 0;
      bool listed = false;
      bool made = false;
      team_.pass_where(late, [this, &listed, &made, cuts, late] {
        listed = list(cuts);
        if (!late) made = listed && (cuts ? place(team_, task_, nullptr) : divide());
      });
      if (late) {
        const bool tries_early = is_early(task) && may_close_early(team_.lanes(), task);
        if (tries_early) team_.pass(false, [] {});
        made = listed && tries_early == is_early(task) && place_as_tried();
      }
      // Others do not wait for lists to be written: whether they are the plan's depends on tries alone.
      if (leads()) tell_of(made, late);
      team_.pass(leads(), [this, &lists, made] {
        if (made) write(lists);
      });
      std::int32_t number = 0;
      bool early = false;
      choose_tiles(team_.lanes(), task, number, early, [this, late](bool attempts_early, const TrunkChoice&) {
        if (attempts_early && !late) team_.each(0, [](std::int32_t) {});
      });
      if (!is_right(number)) return false;
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
    if (!SketchCuts::places_items(task.memory)) lay_out_cuts(team, task, triers(task));
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

  /// \param cuts tiles may be cut \return whether requests are alike, and the block has room for what tiles stream
  TRUNKLINE_HOST_DEVICE bool list(bool cuts) const {
    const PlanTask& task = task_;
    bool listed = false;
    bool priced = false;
    const auto share_of = [this, &task](std::int32_t tiles) { return team_.share(tiles, triers(task)); };
    // The last block writes the schedule, and tells of the plan.
    team_.own([&task, &listed, &priced, share_of, cuts](auto&& block, bool last) {
      using Block = std::decay_t<decltype(block)>;
      priced = last || cuts;
      AlikeRequests<Block> requests(block, task);
      listed = requests.load();
      if (listed) FewTileLister<Block>(block, task).list_sketch(priced, requests.hot(), share_of);
    });
    if (!listed || task.memory.shape[PlanMemory::kOwnTiles] == kNoTiles) return false;
    // Each segment makes a span or more.
    if (task.memory.shape[PlanMemory::kRaw] > task.machine.capacity.spans) return false;
    deal_lists(team_, task, triers(task), priced,
               [&task, cuts](auto&& lanes) { SketchCuts::guess<Team>(lanes, *Team::forgotten(&task), cuts); });
    return true;
  }
  TRUNKLINE_HOST_DEVICE bool divide() const {
    const PlanTask& task = task_;
    bool fits = false;
    team_.own([&task, &fits](auto&& block, bool) { fits = FewTileDivider(block, task).divide_sketch(); });
    return fits;
  }
  /// Of a sketch that is late, once its tiles are tried, if those that are closed early are.
  TRUNKLINE_HOST_DEVICE bool place_as_tried() const {
    const PlanTask& task = task_;
    const std::int32_t number = task.guess.tiles.number;
    const bool is_best = is_early(task) || best_of(team_.lanes(), task, {0, task.machine.width_count}) == number;
    const TriedTiles& tried = task.block.state->tried[number];
    if (!is_best || tried.possible == 0 || !has_tiles_of(number)) return false;
    return place(team_, task, tried.pieces == task.block.state->sketch.pieces ? nullptr : &tried.pieces);
  }
  /// A function of its own, as write_cut(). \param tried null: it is cut as is guessed \return whether packs fit
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static bool place(Team& team, const PlanTask& task,
                                                                const CutChoice::Pieces* tried) {
    bool fits = false;
    team.own([&task, tried, &fits](auto&& block, bool) { fits = SketchCuts::place(block, task, tried); });
    return fits;
  }

  /// By the block that leads it. All know of it once tiles are tried.
  /// \param made it has lists
  TRUNKLINE_HOST_DEVICE void tell_of(bool made, bool late) const {
    const PlanTask& task = task_;
    team_.own([this, &task, made, late](auto&& block, bool) {
      PlanSketch& sketch = task.block.state->sketch;
      block.each_warp(1, [this, &task, &sketch, made, late](std::int32_t, auto&& lanes) {
        CutChoice::Pieces pieces{};
        if (made && late) {
          pieces = task.block.state->tried[task.guess.tiles.number].pieces;
        } else if (made && task.guess.round >= 0) {
          pieces = sketch.pieces;
        }
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
