// What both kernels that find a forest do, whatever their team.
#pragma once

#include <cstddef>

#include "exec/cuda/planner/forest_kernel.hpp"
#include "plan/team/forest_phase.hpp"

namespace trunkline::cuda {

/// \param memory ForestPhaseMemory's, which the lead block reaches fastest
template <class Team>
__device__ __forceinline__ void run_forest(Team& team, const ForestArgs& args, std::byte* memory) {
  find_forest(team, args.batch, memory, args.forest);
  team.once([&] { *args.result = *ForestPhaseMemory(memory, args.batch.rows).result; });
}

/// The same kernel for clusters, which is compiled for devices that have them.
const void* cluster_forest_kernel();

}  // namespace trunkline::cuda
