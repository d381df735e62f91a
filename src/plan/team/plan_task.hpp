// What all steps of planning by a team are given.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_machine.hpp"

namespace trunkline {

struct PlanTask {
  const TeamMachine& machine;
  const TeamForest& forest;
  PlanMemory& memory;     ///< each block's own
  const PlanMemory& all;  ///< what all blocks see
  const BlockMemory& block;
  TileGuess& guess;        ///< PlanMemory::guess, near
  bool rows_told = false;  ///< requests are AlikeRequests, of which each block was told with the forest

  /// Where the tiles of a try begin: of few, each block knows it.
  TRUNKLINE_HOST_DEVICE std::int32_t* begins_of(std::int32_t number, std::int32_t tiles) const {
    if (tiles <= FewTiles::kMost) return block.state->tried[number].begins;
    return memory.try_begins + number * (memory.rows + 1);
  }
};

}  // namespace trunkline
