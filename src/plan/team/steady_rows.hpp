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
// row_look.hpp compares. What was kept is of use where a plan is made anew too: who owned what a row shares is likely
// to own it still.
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

/// What was planned, in memory that outlives the launch.
struct SteadyRows {
  SteadyRow* rows = nullptr;  ///< [most rows]
  /// [2] rows that were planned, and nodes of their forest; -1, or any other number of rows: plan anew.
  std::int32_t* count = nullptr;
  std::int32_t* growth = nullptr;  ///< [1] TeamPlanStatus::growth of the plan; null: as its rows say
};

inline constexpr std::int32_t kLongestRow = std::numeric_limits<std::int32_t>::max();

/// Keeps what look_at_rows() compares with: of each row, as find_forest() names it, then of all.
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
  TRUNKLINE_HOST_DEVICE void finish(const ForestPhaseResult& found) const {
    if (planned_.rows == nullptr) return;
    planned_.count[0] = found.faults.lengths + found.faults.queries == 0 ? batch_.rows : -1;
    planned_.count[1] = found.node_count;
  }

 private:
  TeamBatch batch_;
  const std::int32_t* query_begin_;
  std::int32_t growth_;
  SteadyRows planned_;
};

}  // namespace trunkline
