// The first half of planning by a team: the forest of a batch, equal to build_forest()'s.
//
// Steps and what they cost, with barriers of 0.3 us for the team and 30 ns for a block, and dependent reads of 0.3 us
// from L2 or another block's memory and 20 ns from the block's own. Read lengths and first pages: 1 us. Find what rows
// share, in rounds of 1.5 us (row_sharing.hpp), beside which stands the reading itself: 1 MB in 1.2 us by 8 blocks. Lay
// the forest out: 2 to 3 us (forest_layout.hpp). So 256 rows of 512 pages under prompts of prompts (two rounds) take
// about 7 us, 1,024 rows of which all pages are shared about 10, and a batch that shares nothing 3.
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

/// What the lead block makes known to all.
struct ForestPhaseResult {
  TeamFaults faults;
  std::int32_t node_count = 0;
  std::int64_t total_tokens = 0;
  std::int64_t distinct_tokens = 0;
};

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
    TeamMemory memory(base);
    result = memory.take<ForestPhaseResult>(1);
    sharing.take(memory, rows);
    TeamMemory of_search = memory;
    search.take(of_search, rows);
    layout.take(memory, rows);
    bytes = most(memory.bytes(), of_search.bytes());
  }
};

/// Fills the arrays of `forest`, which has room for the batch's rows.
/// Whatever the table, lengths and query_start hold, only entries of the table are read, and the result is a forest.
/// \tparam Hash of groups of rows, for tests
/// \return `forest` with its counts, to all threads; memory.result has them too, and the faults
template <class Hash = SharingHash, class Team>
TRUNKLINE_HOST_DEVICE TeamForest find_forest(Team& team, const TeamBatch& batch, const ForestPhaseMemory& memory,
                                             TeamForest forest) {
  ForestPhaseResult& result = *memory.result;
  team.lead([&](auto& block) {
    block.once([&] { result = {}; });
    copy_query_starts(block, batch, forest.query_begin, result.faults);
  });
  if (batch.table.wide) {
    SharingSearch<std::int64_t, Hash>(batch, memory.sharing, memory.search)
        .run(team, result.faults, result.total_tokens);
  } else {
    SharingSearch<std::int32_t, Hash>(batch, memory.sharing, memory.search)
        .run(team, result.faults, result.total_tokens);
  }
  team.lead([&](auto& block) {
    const TeamForest laid_out = ForestLayout(memory.sharing, memory.layout, forest).run(block);
    block.each(batch.rows, [&](std::int32_t row) { forest.kv_len[row] = memory.sharing.kv_len[row]; });
    block.once([&] {
      result.node_count = laid_out.node_count;
      result.distinct_tokens = laid_out.distinct_tokens;
      name_faults(batch, result.faults);
    });
  });
  forest.rows = batch.rows;
  forest.node_count = result.node_count;
  forest.total_tokens = result.total_tokens;
  forest.distinct_tokens = result.distinct_tokens;
  return forest;
}

}  // namespace trunkline
