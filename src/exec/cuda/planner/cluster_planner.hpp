// A forest and its plan by one kernel of one cluster: what launch_forest() and launch_plan() do by blocks, for devices
// of compute capability 9.
#pragma once

#include <cuda_runtime_api.h>

#include "exec/cuda/planner/forest_kernel.hpp"
#include "exec/cuda/planner/plan_kernel.hpp"
#include "exec/cuda/planner/team_launch.hpp"

namespace trunkline::cuda {

/// A kernel of its own for each would cost a step that keeps its plan 1.2 us.
/// \param find, plan what is to be done of both: null for nothing. A plan alone is of the forest in plan->forest.
/// \param most_blocks TeamLaunch::blocks
cudaError_t launch_cluster(const ForestArgs* find, const PlanArgs* plan, cudaStream_t stream,
                           std::int32_t most_blocks = kMostBlocks);

}  // namespace trunkline::cuda
