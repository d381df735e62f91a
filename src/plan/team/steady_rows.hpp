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
// Cost: an exchange between blocks and, for a warp's rows together, three dependent reads (0.3 us each) besides the
// pages.
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

  /// Where guesses go wrong they are made ever more seldom: each costs 4 to 11 us. \param was of the step
  /// before
  TRUNKLINE_HOST_DEVICE void count(OwnerGuess guess, const LastForest& was) {
    constexpr std::int32_t kLongest = 63;
    if (guess == OwnerGuess::kNone) {
      pause = most(was.pause - 1, 0);
      pause_length = was.pause_length;
    } else {
      pause_length = is_right(guess) ? 0 : least(2 * was.pause_length + 1, kLongest);
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
  LastForest forest;
  bool near = false;

  /// To be read before the first barrier, as finding the forest overwrites it. \param near where nothing is shared,
  /// that is found without rounds, too; but only near forests are the faster for it
  TRUNKLINE_HOST_DEVICE static LastStep of(const SteadyRows& planned, bool near) {
    return {planned.rows == nullptr ? LastForest{} : *planned.last, near};
  }
  /// That owners are the same: looking at rows may spare rounds.
  TRUNKLINE_HOST_DEVICE bool is_likely() const {
    return forest.rows >= 0 && (near || forest.shares != 0) && forest.pause == 0;
  }
};

inline constexpr std::int32_t kLongestRow = std::numeric_limits<std::int32_t>::max();

template <class Id>
class SteadyCheck {
 public:
  TRUNKLINE_HOST_DEVICE SteadyCheck(const TeamBatch& batch, const SteadyRows& planned)
      : batch_(batch), planned_(planned), ids_(static_cast<const Id*>(batch.table.ids)), null_(batch.null_page) {}

  /// Whether every `step`-th row from `first` on is as planned. All lanes call it alike and get the result: first each
  /// looks at what is a row's and no page but two, then all compare the pages of one row after the other. Where nobody
  /// wants to know what pages are the same, what is read of rows is judged once the first pages are on their way.
  /// \param seen_at() [rows] of the block, of which SeenRow::kSamePages is told; null: it is not wanted
  template <class Lanes, class SeenAt>
  TRUNKLINE_HOST_DEVICE bool holds(const Lanes& lanes, std::int32_t first, std::int32_t step, SeenAt seen_at) const {
    bool all_hold = true;
    for (std::int32_t base = first; base < batch_.rows; base += step * lanes.count()) {
      const std::int32_t row = base + lanes.index() * step;
      const RowFound found = row < batch_.rows ? look_at(row) : RowFound{};
      SamePages<Id> pages(null_);
      for (std::int32_t lane = 0; lane < lanes.count() && base + lane * step < batch_.rows; ++lane) {
        const std::int32_t count = lanes.from(found.pages, lane);
        if (count == 0) continue;
        pages.add(lanes, ids_ + lanes.from(found.begin, lane), ids_ + lanes.from(found.owner_begin, lane), count);
        if (lane == 0 && seen_at() == nullptr && lanes.any(!found.holds())) return false;
      }
      const bool hold = found.holds();
      SeenRow* const seen = seen_at();
      const bool differ = lanes.any(!pages.are_same());
      if (seen != nullptr && row < batch_.rows) seen[row].level = !differ && found.pages > 0 ? SeenRow::kSamePages : 0;
      all_hold = all_hold && !differ && !lanes.any(!hold);
    }
    return all_hold;
  }

 private:
  /// What is read of a row. All is as planned where nothing is.
  struct RowFound {
    std::int64_t begin = 0;
    std::int64_t owner_begin = 0;
    std::int64_t next_id = 0;
    std::int64_t planned_next_id = 0;
    std::int64_t owners_next_id = -1;
    std::int32_t pages = 0;  ///< that it and its owner must have in common
    std::int32_t shared = 0;
    std::int32_t owner_len = 0;
    bool fits = true;  ///< its length and queries are within bounds
    bool next_is_null = false;

    TRUNKLINE_HOST_DEVICE bool holds() const {
      const bool both_go_on = owner_len > shared;
      return fits && next_id == planned_next_id && owner_len >= shared &&
             !(both_go_on && next_id == owners_next_id && !next_is_null);
    }
  };

  TRUNKLINE_HOST_DEVICE RowFound look_at(std::int32_t row) const {
    const SteadyRow planned = planned_.rows[row];
    const TeamRow live = team_row(batch_, row);
    const std::int32_t growth = planned_.growth == nullptr ? kLongestRow : *planned_.growth;
    const std::int32_t queries =
        batch_.query_start == nullptr ? 1 : batch_.query_start[row + 1] - batch_.query_start[row];
    RowFound found;
    // As is all that was ever planned: whatever lies there, no page beyond the row's is read.
    const bool sound = live.fits && planned.shared >= 0 && planned.shared <= live.kv_len && planned.owner < row;
    found.fits = sound && live.kv_len >= planned.least_len && live.kv_len <= planned.most_len &&
                 live.kv_len - planned.planned_len <= growth && queries == planned.queries;
    if (!sound) return found;
    const std::int32_t next = planned.shared / batch_.table.page_size;
    const bool goes_on = live.kv_len > planned.shared;
    if (goes_on) {
      const Id id = ids_[live.begin + next];
      found.next_id = id;
      found.planned_next_id = planned.next_id;
      found.next_is_null = null_.is(id);
    }
    if (planned.owner < 0) return found;
    const TeamRow owner = team_row(batch_, planned.owner);
    const std::int32_t pages = team_pages(planned.shared, batch_.table.page_size);
    found.begin = live.begin;
    found.owner_begin = owner.begin;
    found.shared = planned.shared;
    found.owner_len = owner.kv_len;
    // Read even where the owner has no such page any more, as its length is not known yet.
    const std::int64_t rest = batch_.table.entries - owner.begin;
    if (goes_on && next < rest) found.owners_next_id = ids_[owner.begin + next];
    if (pages <= rest) found.pages = pages;
    return found;
  }

  const TeamBatch& batch_;
  const SteadyRows& planned_;
  const Id* ids_;
  TeamNullId<Id> null_;
};

/// Nothing that must hold beside what is_steady() compares.
struct NothingKept {
  TRUNKLINE_HOST_DEVICE bool find() const { return true; }
  TRUNKLINE_HOST_DEVICE bool hold(bool found) const { return found; }
};

/// Whether the plan that was made for `planned` still fits, to all threads.
/// \param seen_at SteadyCheck's \param kept what must hold beside that: hold() of what find() reads
template <class Team, class SeenAt, class Kept>
TRUNKLINE_HOST_DEVICE bool is_steady(Team& team, const TeamBatch& batch, const SteadyRows& planned, SeenAt seen_at,
                                     const Kept& kept) {
  const std::int32_t warps = most(least(batch.rows, team.warps()), 1);  // without rows, all else must hold
  return !team.any_warp(warps, [&](std::int32_t first, const auto& lanes) {
    // Read beside the rows, and looked at after them: devices wait where something is first looked at.
    const std::int32_t rows = planned.last->rows;
    const std::int32_t first_query = batch.query_start == nullptr ? 0 : batch.query_start[0];
    const auto found = kept.find();
    const bool hold = batch.table.wide ? SteadyCheck<std::int64_t>(batch, planned).holds(lanes, first, warps, seen_at)
                                       : SteadyCheck<std::int32_t>(batch, planned).holds(lanes, first, warps, seen_at);
    return !(hold && rows == batch.rows && first_query == 0 && kept.hold(found));
  });
}
template <class Team>
TRUNKLINE_HOST_DEVICE bool is_steady(Team& team, const TeamBatch& batch, const SteadyRows& planned) {
  return is_steady(
      team, batch, planned, [] { return static_cast<SeenRow*>(nullptr); }, NothingKept());
}

/// Keeps what is_steady() compares with: of each row, as find_forest() names it, then of all.
class SteadyKeeper {
 public:
  /// \param growth tokens by which a row may grow at most before planning is due again
  /// \param planned with null rows nothing is kept
  TRUNKLINE_HOST_DEVICE SteadyKeeper(const TeamBatch& batch, std::int32_t growth, const SteadyRows& planned)
      : batch_(batch), growth_(growth), planned_(planned) {}

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
    kept.queries = batch_.query_start == nullptr ? 1 : batch_.query_start[row + 1] - batch_.query_start[row];
    if (kv_len > shared) kept.next_id = sharing.next_id(row);
    store_whole(planned_.rows[row], kept);
  }
  /// What was kept of the step before: to be read some time ahead of finish().
  TRUNKLINE_HOST_DEVICE LastForest last() const { return planned_.rows == nullptr ? LastForest{} : *planned_.last; }
  /// By one thread. \param before what last() was. Where the batch has faults nothing is kept: the next
  /// step is planned anew.
  TRUNKLINE_HOST_DEVICE void finish(const ForestPhaseResult& found, OwnerGuess guess, const LastForest& before) const {
    if (planned_.rows == nullptr) return;
    LastForest& last = *planned_.last;
    last.rows = found.faults.lengths + found.faults.queries == 0 ? batch_.rows : -1;
    last.nodes = found.node_count;
    last.shares = found.distinct_tokens < found.total_tokens ? 1 : 0;
    last.count(guess, before);
  }

 private:
  TeamBatch batch_;
  std::int32_t growth_;
  SteadyRows planned_;
};

}  // namespace trunkline
