// Whether a plan still fits a batch: what a steady step costs instead of planning.
//
// The host keeps a plan while the same requests share the same tokens, have all tokens that the plan reads by position,
// and have not grown so much that workers are uneven (live/live_planner.cpp). A team sees tables and lengths alone, so
// it compares these with what it planned: each row's shared pages with those of their owner as they are now, the page
// at which it parted from its owner with what it was, and its length with bounds. Where all hold, the forest is the
// planned one but for the ends of nodes that one row has to itself, of which a plan leaves the end open:
// - Rows that shared tokens share them still, since each has its owner's pages, and the owner its own owner's.
// - Rows that parted at a page do so still: a row has the page it had, and its owner another; and two that parted from
//   one owner there had different ones.
// - A row grows only in a node that nobody else is in, so what it adds follows on a token that nobody shares.
// Pages that one row has to itself may change: plans hold no page ids. Another request in such a row is noticed by its
// first page there; where that is the same by chance, the plan is right for it all the same, and shares no less.
//
// Cost: a barrier and, for a warp's rows together, three dependent reads (0.3 us each) besides the pages.
#pragma once

#include <cstdint>
#include <limits>

#include "base/host_device.hpp"
#include "plan/team/page_compare.hpp"
#include "plan/team/row_sharing.hpp"
#include "plan/team/team_batch.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_memory.hpp"

namespace trunkline {

/// What must hold of a row for the plan to be kept.
struct alignas(16) SteadyRow {
  std::int64_t next_id = 0;    ///< the page of token `shared`, where the row has one
  std::int32_t least_len = 0;  ///< of kv_len; planning may lower it to what the plan reads by position, but for a token
                               ///< at least of the row's last node
  std::int32_t most_len = 0;
  std::int32_t planned_len = 0;
  std::int32_t shared = 0;  ///< leading tokens that it has in common with its owner
  std::int32_t owner = -1;
  std::int32_t queries = 0;
};

/// Of the step that was planned.
struct LastForest {
  std::int32_t rows = -1;  ///< -1, or any other number than there are now: plan anew
  std::int32_t nodes = 0;
  std::int32_t shares = 0;        ///< 1: some rows share tokens
  std::int32_t pause = 0;         ///< so many times, owners are not guessed
  std::int32_t pause_length = 0;  ///< of the last pause

  /// Where guesses go wrong they are made ever more seldom: each costs 4 to 11 us.
  TRUNKLINE_HOST_DEVICE void count(OwnerGuess guess) {
    constexpr std::int32_t kLongest = 63;
    if (guess == OwnerGuess::kNone) {
      pause = most(pause - 1, 0);
    } else {
      pause_length = is_right(guess) ? 0 : least(2 * pause_length + 1, kLongest);
      pause = pause_length;
    }
  }
};

/// What was planned, in memory that outlives the launch.
struct SteadyRows {
  SteadyRow* rows = nullptr;       ///< [most rows]
  LastForest* last = nullptr;      ///< [1]
  std::int32_t* growth = nullptr;  ///< [1] TeamPlanStatus::growth of the plan; null: as its rows say
};

/// What is known of the last step before a forest is found.
struct LastStep {
  std::int32_t rows = -1;  ///< LastForest's
  bool is_likely = false;  ///< that owners are the same: looking at rows may spare rounds

  /// To be read before the first barrier, as finding the forest overwrites it.
  TRUNKLINE_HOST_DEVICE static LastStep of(const SteadyRows& planned) {
    if (planned.rows == nullptr) return {};
    const LastForest last = *planned.last;
    return {last.rows, last.rows >= 0 && last.shares != 0 && last.pause == 0};
  }
};

inline constexpr std::int32_t kLongestRow = std::numeric_limits<std::int32_t>::max();

template <class Id>
class SteadyCheck {
 public:
  TRUNKLINE_HOST_DEVICE SteadyCheck(const TeamBatch& batch, const SteadyRows& planned)
      : batch_(batch),
        planned_(planned),
        ids_(static_cast<const Id*>(batch.table.ids)),
        null_(batch.null_page),
        growth_(planned.growth == nullptr ? kLongestRow : *planned.growth) {}

  /// Whether every `step`-th row from `first` on is as planned. All lanes call it alike and get the result: first each
  /// looks at what is a row's and no page but one, then all compare the pages of one row after the other.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE bool holds(const Lanes& lanes, std::int32_t first, std::int32_t step) const {
    for (std::int32_t base = first; base < batch_.rows; base += step * lanes.count()) {
      const std::int32_t row = base + lanes.index() * step;
      SharedPages pages{};
      if (lanes.any(row < batch_.rows && !holds_but_for_pages(row, pages))) return false;
      for (std::int32_t lane = 0; lane < lanes.count() && base + lane * step < batch_.rows; ++lane) {
        const std::int32_t count = lanes.from(pages.count, lane);
        if (count == 0) continue;
        const Id* const own = ids_ + lanes.from(pages.begin, lane);
        const Id* const owners = ids_ + lanes.from(pages.owner_begin, lane);
        if (first_parting(lanes, own, owners, 0, count, null_) != count) return false;
      }
    }
    return true;
  }

 private:
  /// That a row and its owner must have in common.
  struct SharedPages {
    std::int64_t begin;
    std::int64_t owner_begin;
    std::int32_t count;
  };

  TRUNKLINE_HOST_DEVICE bool holds_but_for_pages(std::int32_t row, SharedPages& pages) const {
    const SteadyRow planned = planned_.rows[row];
    const TeamRow live = team_row(batch_, row);
    if (!live.fits || live.kv_len < planned.least_len || live.kv_len > planned.most_len) return false;
    if (live.kv_len - planned.planned_len > growth_) return false;
    const std::int32_t queries =
        batch_.query_start == nullptr ? 1 : batch_.query_start[row + 1] - batch_.query_start[row];
    if (queries != planned.queries) return false;
    const Id* const ids = ids_ + live.begin;
    const std::int32_t next = planned.shared / batch_.table.page_size;
    const bool goes_on = live.kv_len > planned.shared;
    if (goes_on && std::int64_t{ids[next]} != planned.next_id) return false;
    if (planned.owner < 0) return true;
    const TeamRow owner = team_row(batch_, planned.owner);
    if (owner.kv_len < planned.shared) return false;
    pages = {live.begin, owner.begin, team_pages(planned.shared, batch_.table.page_size)};
    const bool both_go_on = goes_on && owner.kv_len > planned.shared;
    return !both_go_on || ids[next] != ids_[owner.begin + next] || null_.is(ids[next]);
  }

  const TeamBatch& batch_;
  const SteadyRows& planned_;
  const Id* ids_;
  TeamNullId<Id> null_;
  std::int32_t growth_;
};

/// Whether the plan that was made for `planned` still fits, to all threads.
template <class Team>
TRUNKLINE_HOST_DEVICE bool is_steady(Team& team, const TeamBatch& batch, const SteadyRows& planned) {
  constexpr std::int32_t kWarps = 256;  // of 8 blocks
  if (planned.last->rows != batch.rows) return false;
  if (batch.query_start != nullptr && batch.query_start[0] != 0) return false;
  const std::int32_t warps = least(batch.rows, kWarps);
  return !team.any_warp(warps, [&](std::int32_t first, const auto& lanes) {
    return !(batch.table.wide ? SteadyCheck<std::int64_t>(batch, planned).holds(lanes, first, warps)
                              : SteadyCheck<std::int32_t>(batch, planned).holds(lanes, first, warps));
  });
}

/// Keeps what is_steady() compares with: of each row, as find_forest() names it, then of all.
class SteadyKeeper {
 public:
  /// \param growth tokens by which a row may grow at most before planning is due again
  /// \param planned with null rows nothing is kept
  TRUNKLINE_HOST_DEVICE SteadyKeeper(const TeamBatch& batch, const std::int32_t* query_begin, std::int32_t growth,
                                     const SteadyRows& planned)
      : batch_(batch), query_begin_(query_begin), growth_(growth), planned_(planned) {}

  /// \param alone it ends in a node that no other row is in, where it may grow
  TRUNKLINE_HOST_DEVICE void keep(const RowSharing& sharing, std::int32_t row, bool alone) const {
    if (planned_.rows == nullptr) return;
    const std::int32_t kv_len = sharing.kv_len(row);
    const std::int32_t shared = sharing.shared(row);
    SteadyRow kept;
    kept.least_len = kept.planned_len = kv_len;
    kept.most_len = alone ? kv_len + least(growth_, kLongestRow - kv_len) : kv_len;
    kept.shared = shared;
    kept.owner = sharing.owner(row);
    kept.queries = query_begin_[row + 1] - query_begin_[row];
    if (kv_len > shared) kept.next_id = sharing.next_id(row);
    store_whole(planned_.rows[row], kept);
  }
  /// By one thread. Where the batch has faults nothing is kept: the next step is planned anew.
  TRUNKLINE_HOST_DEVICE void finish(const ForestPhaseResult& found, OwnerGuess guess) const {
    if (planned_.rows == nullptr) return;
    LastForest& last = *planned_.last;
    last.rows = found.faults.lengths + found.faults.queries == 0 ? batch_.rows : -1;
    last.nodes = found.node_count;
    last.shares = found.distinct_tokens < found.total_tokens ? 1 : 0;
    last.count(guess);
  }

 private:
  TeamBatch batch_;
  const std::int32_t* query_begin_;
  std::int32_t growth_;
  SteadyRows planned_;
};

}  // namespace trunkline
