// The first half of planning by a team: the forest of a batch, equal to build_forest()'s.
//
// A barrier of a cluster takes 0.6 us, a step of one block with its barrier 0.3 to 0.8: one block does all but the
// comparing of pages, and waits for the others twice a round of row_sharing.hpp. What it costs: docs/planning.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/forest_layout.hpp"
#include "plan/team/owner_repair.hpp"
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

/// Each block leaves what it sees of rows in its own memory. \param planned what was kept of the last step
template <class Team>
TRUNKLINE_HOST_DEVICE void look_at_rows(Team& team, const TeamBatch& batch, const SteadyRows& planned, std::byte* own) {
  const std::int32_t warps = least(batch.rows, team.warps());  // each looks at every so-many-th row
  team.each_warp(warps, [&](std::int32_t first, const auto& lanes) {
    const ForestPhaseMemory arrays(Team::forgotten(own), batch.rows);
    if (batch.table.wide) {
      RowLook<std::int64_t>(batch, planned, arrays.sharing, arrays.search).look(lanes, first, warps);
    } else {
      RowLook<std::int32_t>(batch, planned, arrays.sharing, arrays.search).look(lanes, first, warps);
    }
  });
}

/// What all blocks have seen of rows. By the lead, whose memory these arrays are.
template <class Team, class Block>
TRUNKLINE_HOST_DEVICE void take_rows(Team& team, Block& block, std::byte* own, const ForestPhaseMemory& arrays) {
  const RowSharing to = arrays.sharing;
  const std::int32_t rows = to.rows;
  const std::int32_t warps = least(rows, team.warps());
  const auto slots = static_cast<std::int32_t>(arrays.search.slot_count);
  block.each(most(slots, rows), [&](std::int32_t i) {
    if (i < slots) arrays.search.slots[i] = SharingScratch::kEmptySlot;
    if (i >= rows) return;
    const ForestPhaseMemory of_block(team.of_warp(i % warps, own), rows);
    const RowSharing from = of_block.sharing;
    if (&from.kv_len(i) == &to.kv_len(i)) return;
    const std::int32_t kv_len = from.kv_len(i);
    const std::int32_t shared = from.shared(i);
    const std::int32_t owner = from.owner(i);
    const std::int32_t level = from.level(i);
    const std::int64_t next_id = from.next_id(i);
    const std::int32_t reshaped = of_block.search.reshaped(i);
    to.kv_len(i) = kv_len;
    to.shared(i) = shared;
    to.owner(i) = owner;
    to.level(i) = level;
    to.next_id(i) = next_id;
    arrays.search.reshaped(i) = reshaped;
  });
}

struct NothingMeanwhile {
  TRUNKLINE_HOST_DEVICE void operator()() const {}
};

/// Fills the arrays of `forest`, which has room for the batch's rows.
/// Whatever the table, lengths and query_start hold, only entries of the table are read, and the result is a forest.
/// \tparam Hash of groups of rows, for tests
/// \param last, planned of the step whose forest the arrays still hold
/// \param own each block's memory, as ForestPhaseMemory has it for the batch's rows, or the same for all
/// \param memory the lead's
/// \param keep(arrays, row, alone) of each row, by some thread; alone: it ends in a node that no other row is in
/// \param finish(arrays, guess) by one thread, once all else is done; `arrays.result` has the counts and faults
/// \param meanwhile() by the threads of all blocks but the lead, while that finds the forest
/// When all return, blocks have nothing to do with each other any more.
template <class Hash = SharingHash, class Team, class Keep, class Finish, class Meanwhile = NothingMeanwhile>
TRUNKLINE_HOST_DEVICE void find_forest(Team& team, const TeamBatch& batch, const LastStep& last,
                                       const SteadyRows& planned, std::byte* own, std::byte* memory,
                                       const TeamForest& forest, Keep keep, Finish finish, Meanwhile meanwhile = {}) {
  std::int32_t tasks = 0;
  OwnerGuess guess = OwnerGuess::kNone;
  std::int32_t first_round = last.is_likely ? -1 : 0;  // of the search by rounds; -1: owners are guessed
  std::int32_t turn = 0;                               // at guessing
  if (last.is_likely) look_at_rows(team, batch, planned, own);
  team.meanwhile(meanwhile);
  team.lead_rounds(
      [&](auto& block, std::int32_t round) {
        const ForestPhaseMemory arrays(Team::forgotten(memory), batch.rows);
        if (round == 0) block.once([&] { *arrays.result = {}; });
        if (round == 0 && last.is_likely) take_rows(team, block, own, arrays);
        const auto next = [&](auto search, auto repair) -> std::int32_t {
          while (first_round < 0) {
            guess = search.confirm(block, turn, forest.query_begin);
            if (is_right(guess)) return 0;
            const std::int32_t compared = ++turn < repair.kMostTurns ? repair.next(block) : -1;
            if (compared > 0) return compared;
            if (compared < 0) first_round = round;
          }
          return search.next(block, round - first_round, tasks, forest.query_begin, arrays.result->faults);
        };
        tasks = batch.table.wide ? next(SharingSearch<std::int64_t, Hash>(batch, arrays.sharing, arrays.search),
                                        OwnerRepair<std::int64_t>(batch, arrays.sharing, arrays.search))
                                 : next(SharingSearch<std::int32_t, Hash>(batch, arrays.sharing, arrays.search),
                                        OwnerRepair<std::int32_t>(batch, arrays.sharing, arrays.search));
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
        const bool same_shape = guess == OwnerGuess::kSameShape && last.rows == batch.rows;
        const LaidOutForest laid_out = same_shape
                                           ? update_ends(block, arrays.sharing, forest, keep_row)
                                           : ForestLayout(arrays.sharing, arrays.layout, forest).run(block, keep_row);
        block.once([&] {
          arrays.result->node_count = same_shape ? planned.last->nodes : laid_out.nodes;
          arrays.result->total_tokens = laid_out.total_tokens;
          arrays.result->distinct_tokens = laid_out.distinct_tokens;
          name_faults(batch, arrays.result->faults);
          finish(arrays, guess);
        });
      });
}

}  // namespace trunkline
