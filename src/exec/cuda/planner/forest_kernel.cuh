// What both kernels that find a forest do, whatever their team.
#pragma once

#include <cstddef>

#include "exec/cuda/planner/forest_kernel.hpp"
#include "plan/team/forest_phase.hpp"
#include "plan/team/steady_rows.hpp"

namespace trunkline::cuda {

/// \param memory ForestPhaseMemory's, which the lead block reaches fastest
/// \param changed is_steady()'s
template <class Team>
__device__ __forceinline__ void run_forest(Team& team, const ForestArgs& args, std::byte* memory,
                                           std::int32_t* changed) {
  const bool may_keep = args.steady.rows != nullptr && args.kept_lists.hold();
  if (may_keep && is_steady(team, args.batch, args.steady, changed)) {
    team.once([&] { args.report->kept = 1; });
    return;
  }
  const TeamForest forest = find_forest(team, args.batch, memory, args.forest);
  team.lead([&](auto& block) {
    const ForestPhaseMemory arrays(Team::forgotten(memory), args.batch.rows);
    block.once([&] {
      if (args.kept_lists.counts != nullptr) *args.kept_lists.written = 0;  // until the plan is written
    });
    if (args.steady.rows != nullptr) remember_rows(block, args.batch, arrays, forest, args.growth, args.steady);
    block.once([&] { *args.report = {*arrays.result, 0}; });
  });
}

/// The same kernel for clusters, which is compiled for devices that have them.
const void* cluster_forest_kernel();

}  // namespace trunkline::cuda
