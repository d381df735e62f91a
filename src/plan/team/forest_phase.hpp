// The first half of planning by a team: the forest of a batch, equal to build_forest()'s.
//
// What it costs on an H200 by a cluster of 8 blocks (plan_time; the page table warm in L2), with what waits in it: a
// barrier of the team takes 1.2 us, a step of the lead block with its barrier 0.3 to 0.6.
//
//   batch                                     team barriers  block barriers  in all
//   256 rows, nothing shared                              3              32   14 us
//   256 rows, one prompt, any length                      5              50   26 us
//   256 rows, prompts of prompts of prompts               9              70   37 us
//   1,024 rows, one prompt of 511 pages                   5              52   47 us
//
// The last reads 2 MB of ids. A level of prompts is a round of row_sharing.hpp: some 5 us.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/forest_layout.hpp"
#include "plan/team/query_starts.hpp"
#include "plan/team/row_sharing.hpp"
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

/// Fills the arrays of `forest`, which has room for the batch's rows.
/// Whatever the table, lengths and query_start hold, only entries of the table are read, and the result is a forest.
/// \tparam Hash of groups of rows, for tests
/// \param memory as ForestPhaseMemory has it for the batch's rows
/// \return `forest` with its counts, to all threads; ForestPhaseMemory::result has them too, and the faults
template <class Hash = SharingHash, class Team>
TRUNKLINE_HOST_DEVICE TeamForest find_forest(Team& team, const TeamBatch& batch, std::byte* memory, TeamForest forest) {
  team.lead([&](auto& block) {
    ForestPhaseResult& result = *ForestPhaseMemory(Team::forgotten(memory), batch.rows).result;
    block.once([&] { result = {}; });
    copy_query_starts(block, batch, forest.query_begin, result.faults);
  });
  if (batch.table.wide) {
    const ForestPhaseMemory arrays(Team::forgotten(memory), batch.rows);
    SharingSearch<std::int64_t, Hash>(batch, arrays.sharing, arrays.search).run(team, *arrays.result);
  } else {
    const ForestPhaseMemory arrays(Team::forgotten(memory), batch.rows);
    SharingSearch<std::int32_t, Hash>(batch, arrays.sharing, arrays.search).run(team, *arrays.result);
  }
  team.lead([&](auto& block) {
    const ForestPhaseMemory arrays(Team::forgotten(memory), batch.rows);
    const TeamForest laid_out = ForestLayout(arrays.sharing, arrays.layout, forest).run(block);
    block.once([&] {
      arrays.result->node_count = laid_out.node_count;
      arrays.result->distinct_tokens = laid_out.distinct_tokens;
      name_faults(batch, arrays.result->faults);
    });
  });
  const ForestPhaseResult& result = *ForestPhaseMemory(Team::forgotten(memory), batch.rows).result;
  forest.rows = batch.rows;
  forest.node_count = result.node_count;
  forest.total_tokens = result.total_tokens;
  forest.distinct_tokens = result.distinct_tokens;
  return forest;
}

}  // namespace trunkline
