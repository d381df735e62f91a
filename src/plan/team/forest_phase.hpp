// The first half of planning by a team: the forest of a batch, equal to build_forest()'s.
//
// A barrier of a cluster takes 0.6 us, a step of one block with its barrier 0.3 to 0.8: one block does all but the
// comparing of pages, and waits for the others twice a round of row_sharing.hpp. What it costs: docs/planning.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/forest_layout.hpp"
#include "plan/team/query_starts.hpp"
#include "plan/team/row_look.hpp"
#include "plan/team/row_sharing.hpp"
#include "plan/team/steady_rows.hpp"
#include "plan/team/team_batch.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_memory.hpp"

namespace trunkline {

/// All that the phase keeps in memory, for a number of rows. It is fastest in the lead block's shared memory: some 110
/// bytes a row.
struct ForestPhaseMemory {
  ForestPhaseResult* result = nullptr;
  RowSharing sharing;
  SharingScratch search;
  LayoutScratch layout;  // where search was, which is done by then
  std::size_t bytes = 0;

  /// \param base aligned to 16 bytes; null to learn `bytes` alone
  TRUNKLINE_HOST_DEVICE ForestPhaseMemory(std::byte* base, std::int32_t rows) {
    constexpr std::int32_t kColumns = RowSharing::kColumns + most(SharingScratch::kColumns, LayoutScratch::kColumns);
    const std::int32_t length = rows + 1;  // some sums have an end
    TeamMemory memory(base);
    result = memory.take<ForestPhaseResult>(1);
    const TeamColumns<std::int32_t> columns = {memory.take<std::int32_t>(kColumns * std::int64_t{length}), length};
    sharing = {columns, rows};
    TeamMemory of_search = memory;
    search = {of_search, columns, RowSharing::kColumns, rows};
    layout = {memory, columns, RowSharing::kColumns};
    bytes = most(memory.bytes(), of_search.bytes());
  }
};

/// What look_at_rows sees beside the rows.
struct RowsSeen {
  bool steady;      ///< the plan still fits
  bool same_shape;  ///< the forest is the one that is at hand, but for the ends of rows, if owners are confirmed
  std::byte* own;   ///< the block's memory, in which is what it saw of rows
};

/// Warps that look at rows, each at every so-many-th.
TRUNKLINE_HOST_DEVICE inline std::int32_t looking_warps(std::int32_t rows) {
  return least<std::int32_t>(rows, 256);  // of 8 blocks
}

/// The first step, with whose rows find_forest goes on. \param planned what was kept of the step whose forest is at
/// hand \param memory as ForestPhaseMemory has it for the batch's rows
template <class Team>
TRUNKLINE_HOST_DEVICE RowsSeen look_at_rows(Team& team, const TeamBatch& batch, const SteadyRows& planned,
                                            std::byte* memory) {
  const std::int32_t warps = looking_warps(batch.rows);
  const std::int32_t seen = team.bits_of_warps(warps, [&](std::int32_t first, const auto& lanes) {
    const ForestPhaseMemory arrays(Team::forgotten(memory), batch.rows);
    const auto look = [&](const auto& of_ids) { return of_ids.look(lanes, first, warps); };
    return batch.table.wide ? look(RowLook<std::int64_t>(batch, planned, arrays.sharing, arrays.search))
                            : look(RowLook<std::int32_t>(batch, planned, arrays.sharing, arrays.search));
  });
  using Look = RowLook<std::int32_t>;
  if (planned.rows == nullptr || *planned.count != batch.rows) return {false, false, memory};
  const bool from_zero = batch.query_start == nullptr || batch.query_start[0] == 0;
  return {(seen & Look::kUnsteady) == 0 && from_zero, (seen & Look::kReshaped) == 0, memory};
}

/// What all blocks have seen of rows. By the lead, whose memory these arrays are.
template <class Team, class Block>
TRUNKLINE_HOST_DEVICE void take_rows(Team& team, Block& block, std::byte* own, const ForestPhaseMemory& arrays) {
  const RowSharing to = arrays.sharing;
  const std::int32_t rows = to.rows;
  const std::int32_t warps = looking_warps(rows);
  const auto slots = static_cast<std::int32_t>(arrays.search.slot_count);
  block.each(most(slots, rows), [&](std::int32_t i) {
    if (i < slots) arrays.search.slots[i] = SharingScratch::kEmptySlot;
    if (i >= rows) return;
    const RowSharing from = ForestPhaseMemory(team.of_warp(i % warps, own), rows).sharing;
    if (&from.kv_len(i) == &to.kv_len(i)) return;
    const std::int32_t kv_len = from.kv_len(i);
    const std::int32_t shared = from.shared(i);
    const std::int32_t owner = from.owner(i);
    const std::int32_t level = from.level(i);
    const std::int64_t next_id = from.next_id(i);
    to.kv_len(i) = kv_len;
    to.shared(i) = shared;
    to.owner(i) = owner;
    to.level(i) = level;
    to.next_id(i) = next_id;
  });
}

/// Fills the arrays of `forest`, which has room for the batch's rows. Where it has the shape that it had, they hold the
/// last one.
/// Whatever the table, lengths and query_start hold, only entries of the table are read, and the result is a forest.
/// \tparam Hash of groups of rows, for tests
/// \param seen, planned, memory as of look_at_rows
/// \param keep(arrays, row, alone) of each row, by some thread; alone: it ends in a node that no other row is in
/// \param finish(arrays) by one thread, once all else is done; `arrays.result` has the counts and faults
/// When all return, blocks have nothing to do with each other any more.
template <class Hash = SharingHash, class Team, class Keep, class Finish>
TRUNKLINE_HOST_DEVICE void find_forest(Team& team, const TeamBatch& batch, const RowsSeen& seen,
                                       const SteadyRows& planned, std::byte* memory, const TeamForest& forest,
                                       Keep keep, Finish finish) {
  std::int32_t tasks = 0;
  std::int32_t deepest = -1;
  team.lead_rounds(
      [&](auto& block, std::int32_t round) {
        const ForestPhaseMemory arrays(Team::forgotten(memory), batch.rows);
        if (round == 0) block.once([&] { *arrays.result = {}; });
        const auto next = [&](auto search) -> std::int32_t {
          if (round == 0) {
            take_rows(team, block, seen.own, arrays);
            deepest = search.confirm(block, forest.query_begin);
          }
          if (deepest >= 0) return 0;
          return search.next(block, round, tasks, forest.query_begin, arrays.result->faults);
        };
        tasks = batch.table.wide ? next(SharingSearch<std::int64_t, Hash>(batch, arrays.sharing, arrays.search))
                                 : next(SharingSearch<std::int32_t, Hash>(batch, arrays.sharing, arrays.search));
        return tasks;
      },
      [&](std::int32_t i, const auto& lanes) {
        const ForestPhaseMemory arrays(Team::forgotten(memory), batch.rows);
        if (batch.table.wide) {
          SharingSearch<std::int64_t, Hash>(batch, arrays.sharing, arrays.search).compare(lanes, i);
        } else {
          SharingSearch<std::int32_t, Hash>(batch, arrays.sharing, arrays.search).compare(lanes, i);
        }
      },
      [&](auto& block) {
        const ForestPhaseMemory arrays(Team::forgotten(memory), batch.rows);
        const auto keep_row = [&](std::int32_t row, bool alone) { keep(arrays, row, alone); };
        LaidOutForest laid_out;
        if (deepest >= 0 && seen.same_shape) {
          laid_out = update_ends(block, arrays.sharing, forest, keep_row);
          laid_out.nodes = planned.count[1];
        } else {
          laid_out = ForestLayout(arrays.sharing, arrays.layout, forest).run(block, deepest, keep_row);
        }
        block.once([&] {
          arrays.result->node_count = laid_out.nodes;
          arrays.result->total_tokens = laid_out.total_tokens;
          arrays.result->distinct_tokens = laid_out.distinct_tokens;
          name_faults(batch, arrays.result->faults);
          finish(arrays);
        });
      });
}

}  // namespace trunkline
