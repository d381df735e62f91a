// The plan of a batch in device memory, made there; see plan/team/team_plan.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "exec/cuda/planner/forest_kernel.hpp"
#include "exec/cuda/planner/plan_told.hpp"
#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_machine.hpp"
#include "trunkline/cuda_planner.hpp"

namespace trunkline::cuda {

/// What forward kernels count, and leave at 0. As nobody knows what a workspace held before, each plan makes it so.
struct LaunchCounters {
  std::int32_t* queues = nullptr;  ///< null: none
  std::int32_t queue_words = 0;
  std::int32_t* arrived = nullptr;  ///< null: none
  std::int32_t arrived_words = 0;
};

/// All in device memory, but for what is not behind a pointer.
struct PlanArgs {
  TeamForest forest;           ///< its counts are in the report
  const ForestReport* report;  ///< [1] where it says that the forest was kept, so is the plan
  const TeamMachine* machine;  ///< [1]
  PlanMemory memory;           ///< laid out over room for at least as many rows
  PlanLists lists;
  KeptLists kept_lists;  ///< to be written once the plan is
  LaunchCounters counters;
  std::int32_t* growth;  ///< [1] SteadyRows::growth; null: not wanted
  std::uint64_t* steps;  ///< [2] how many were planned, and kept; null where `told` is
  PlanTold* told;        ///< [1] null: not wanted
  CudaPlanReport* host;  ///< for PlanTold
};

/// The most rows whose plans the current device can make: their requests must fit a block's shared memory.
std::int32_t most_plan_rows();
/// Whether the forest's rows fit the memory, and its rows a block's.
bool has_room(const PlanArgs& args);

/// \param cluster whether a cluster of blocks does it, as devices of compute capability 9 can, or one block
/// The launch depends on the rows and on addresses alone, so that it can be captured.
cudaError_t launch_plan(const PlanArgs& args, bool cluster, cudaStream_t stream);

}  // namespace trunkline::cuda
