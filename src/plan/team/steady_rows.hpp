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
// All of a row that this needs is seen when it is looked at (row_look.hpp), by a kernel before the one that plans.
#pragma once

#include <cstdint>
#include <limits>

#include "base/host_device.hpp"
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

/// How rows are spread over the blocks that look at them, neighbours together: on Hopper six clusters of sixteen, each
/// in a GPC of its own, as one GPC reads some 700 GB/s from L2 (1,024 rows of 511 pages: 3 us on an H100). An H100 of
/// eight GPCs has two more, one for the kernel that plans; where there is none, that begins later.
struct LookShare {
  static constexpr std::int32_t kMostBlocks = 96;

  TRUNKLINE_HOST_DEVICE static std::int32_t rows_each(std::int32_t rows) {
    return ceil_div(most(rows, 1), kMostBlocks);
  }
  static std::int32_t blocks(std::int32_t rows) { return ceil_div(rows, rows_each(rows)); }
};

/// Whether some row of those that a block has looked at is not as planned; false of blocks that there were none of.
union ChangedRows {
  std::uint8_t of_block[LookShare::kMostBlocks];
  std::uint32_t of_four[LookShare::kMostBlocks / 4];
};

/// What was planned, in memory that outlives the launch.
struct SteadyRows {
  SteadyRow* rows = nullptr;       ///< [most rows]
  LastForest* last = nullptr;      ///< [1]
  std::int32_t* growth = nullptr;  ///< [1] TeamPlanStatus::growth of the plan; null: as its rows say
  // What a look at the rows of a step leaves (row_look.hpp).
  SeenRow* seen = nullptr;         ///< [most rows]
  ChangedRows* changed = nullptr;  ///< [1]
};

/// What is known of the last step before a forest is found.
struct LastStep {
  LastForest forest;
  bool near = false;

  /// To be read before all blocks have come to find the forest, which overwrites it. \param near where nothing is
  /// shared, that is found without rounds, too; but only near forests are the faster for it
  TRUNKLINE_HOST_DEVICE static LastStep of(const SteadyRows& planned, bool near) {
    return {planned.rows == nullptr ? LastForest{} : *planned.last, near};
  }
  /// That owners are the same: looking at rows may spare rounds.
  TRUNKLINE_HOST_DEVICE bool is_likely() const {
    return forest.rows >= 0 && (near || forest.shares != 0) && forest.pause == 0;
  }
};

inline constexpr std::int32_t kLongestRow = std::numeric_limits<std::int32_t>::max();

/// Nothing that must hold beside what is_steady() compares.
struct NothingKept {
  TRUNKLINE_HOST_DEVICE bool find() const { return true; }
  TRUNKLINE_HOST_DEVICE bool hold(bool found) const { return found; }
};

/// Whether the plan that was made for `planned` still fits, once rows were looked at (row_look.hpp). All lanes of a
/// warp call it alike. Before all have asked, nobody may overwrite what is read here.
/// \param kept what must hold beside that: hold() of what find() reads
template <class Lanes, class Kept>
TRUNKLINE_HOST_DEVICE bool is_steady(const Lanes& lanes, const TeamBatch& batch, const SteadyRows& planned,
                                     const Kept& kept) {
  // All is asked for before any of it is looked at.
  const std::int32_t rows = planned.last->rows;
  const std::int32_t first_query = batch.query_start == nullptr ? 0 : batch.query_start[0];
  const auto found = kept.find();
  std::uint32_t changed = 0;
  for (std::int32_t i = lanes.index(); i < LookShare::kMostBlocks / 4; i += lanes.count()) {
    changed |= planned.changed->of_four[i];
  }
  const bool looked_at = batch.rows > 0;  // else it tells of another step
  return !lanes.any(looked_at && changed != 0) && rows == batch.rows && first_query == 0 && kept.hold(found);
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
