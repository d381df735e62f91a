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
// Cost: a barrier and, a row, three dependent reads (0.3 us each) besides the pages, of which 8 blocks read 1 MB in 1.2
// us: 256 rows of 512 shared pages take about 2 us, 1,024 about 4.
#pragma once

#include <cstdint>
#include <limits>

#include "base/host_device.hpp"
#include "plan/team/forest_phase.hpp"
#include "plan/team/page_compare.hpp"
#include "plan/team/team_batch.hpp"
#include "plan/team/team_forest.hpp"

namespace trunkline {

/// What must hold of a row for the plan to be kept.
struct SteadyRow {
  std::int64_t next_id = 0;    ///< the page of token `shared`, where the row has one
  std::int32_t least_len = 0;  ///< of kv_len; planning may lower it to what the plan reads by position, but for a token
                               ///< at least of the row's last node
  std::int32_t most_len = 0;
  std::int32_t shared = 0;  ///< leading tokens that it has in common with its owner
  std::int32_t owner = -1;
  std::int32_t queries = 0;
};

/// What was planned, in memory that outlives the launch.
struct SteadyRows {
  SteadyRow* rows = nullptr;      ///< [most rows]
  std::int32_t* count = nullptr;  ///< [1] rows that were planned; -1, or any other number of rows: plan anew
};

inline constexpr std::int32_t kLongestRow = std::numeric_limits<std::int32_t>::max();

template <class Id>
class SteadyCheck {
 public:
  TRUNKLINE_HOST_DEVICE SteadyCheck(const TeamBatch& batch, const SteadyRows& planned)
      : batch_(batch), planned_(planned), ids_(static_cast<const Id*>(batch.table.ids)), null_(batch.null_page) {}

  /// Whether a row is as planned. All lanes call it alike and get the result.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE bool holds(const Lanes& lanes, std::int32_t row) const {
    const SteadyRow planned = planned_.rows[row];
    const TeamRow live = team_row(batch_, row);
    if (!live.fits || live.kv_len < planned.least_len || live.kv_len > planned.most_len) return false;
    const std::int32_t queries =
        batch_.query_start == nullptr ? 1 : batch_.query_start[row + 1] - batch_.query_start[row];
    if (queries != planned.queries) return false;
    const Id* const ids = ids_ + live.begin;
    const std::int32_t next = planned.shared / batch_.table.page_size;
    const bool goes_on = live.kv_len > planned.shared;
    if (goes_on && std::int64_t{ids[next]} != planned.next_id) return false;
    if (planned.owner < 0) return true;
    return parts_from_owner(lanes, planned, ids, next, goes_on);
  }

 private:
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE bool parts_from_owner(const Lanes& lanes, const SteadyRow& planned, const Id* ids,
                                              std::int32_t next, bool goes_on) const {
    const TeamRow owner = team_row(batch_, planned.owner);
    if (owner.kv_len < planned.shared) return false;
    const Id* const owner_ids = ids_ + owner.begin;
    const std::int32_t pages = team_pages(planned.shared, batch_.table.page_size);
    if (goes_on && owner.kv_len > planned.shared && ids[next] == owner_ids[next] && !null_.is(ids[next])) return false;
    return first_parting(lanes, ids, owner_ids, 0, pages, null_) == pages;
  }

  TeamBatch batch_;
  SteadyRows planned_;
  const Id* ids_;
  TeamNullId<Id> null_;
};

/// Whether the plan that was made for `planned` still fits, to all threads.
/// \param changed [1] scratch, in the lead block's shared memory or in device memory, of nobody else
template <class Team>
TRUNKLINE_HOST_DEVICE bool is_steady(Team& team, const TeamBatch& batch, const SteadyRows& planned,
                                     std::int32_t* changed) {
  if (*planned.count != batch.rows) return false;
  team.once([&] { *changed = batch.query_start != nullptr && batch.query_start[0] != 0 ? 1 : 0; });
  team.each_warp(batch.rows, [&](std::int32_t row, const auto& lanes) {
    const bool holds = batch.table.wide ? SteadyCheck<std::int64_t>(batch, planned).holds(lanes, row)
                                        : SteadyCheck<std::int32_t>(batch, planned).holds(lanes, row);
    if (!holds && lanes.index() == 0) team.fetch_greatest(*changed, 1);
  });
  return *changed == 0;
}

/// Keeps what is_steady() compares with. After find_forest(), of whose memory it reads what rows share.
/// \param growth tokens by which a row may grow before planning is due again
/// Where the batch has faults nothing is kept: the next step is planned anew.
template <class Block>
TRUNKLINE_HOST_DEVICE void remember_rows(Block& block, const TeamBatch& batch, const ForestPhaseMemory& memory,
                                         const TeamForest& forest, std::int32_t growth, const SteadyRows& planned) {
  const RowSharing& sharing = memory.sharing;
  block.each(batch.rows, [&](std::int32_t row) {
    const std::int32_t kv_len = sharing.kv_len(row);
    const std::int32_t shared = sharing.shared(row);
    const std::int32_t node = forest.node[row];
    const bool grows = node >= 0 && forest.nodes[node].requests.end - forest.nodes[node].requests.begin == 1;
    SteadyRow kept;
    kept.least_len = kv_len;
    kept.most_len = grows ? kv_len + least(growth, kLongestRow - kv_len) : kv_len;
    kept.shared = shared;
    kept.owner = sharing.owner(row);
    kept.queries = forest.query_begin[row + 1] - forest.query_begin[row];
    if (kv_len > shared) kept.next_id = team_page_id(batch, row, shared / batch.table.page_size);
    planned.rows[row] = kept;
  });
  const TeamFaults& faults = memory.result->faults;
  block.once([&] { *planned.count = faults.lengths + faults.queries == 0 ? batch.rows : -1; });
}

}  // namespace trunkline
