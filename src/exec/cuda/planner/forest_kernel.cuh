// What both kernels that find a forest do, whatever their team.
#pragma once

#include <cstddef>

#include "exec/cuda/planner/forest_kernel.hpp"
#include "plan/team/forest_phase.hpp"
#include "plan/team/steady_rows.hpp"

namespace trunkline::cuda {

/// \param own ForestPhaseMemory's, of each block, or the same for all \param memory the lead's
template <class Team>
__device__ __forceinline__ void run_forest(Team& team, const ForestArgs& args, std::byte* own, std::byte* memory) {
  team.release_next();
  const bool may_keep = args.steady.rows != nullptr && args.kept_lists.hold();
  LastStep last = LastStep::of(args.steady);
  if (!Team::kGuesses) last.is_likely = false;
  team.arrive();
  if (may_keep && last.rows == args.batch.rows && is_steady(team, args.batch, args.steady)) {
    if (blockIdx.x == 0 && threadIdx.x == 0) args.report->kept = 1;
    return;
  }
  const SteadyKeeper keeper(args.batch, args.forest.query_begin, args.growth, args.steady);
  find_forest(
      team, args.batch, last, args.steady, own, memory, args.forest,
      [&](const ForestPhaseMemory& arrays, std::int32_t row, bool alone) { keeper.keep(arrays.sharing, row, alone); },
      [&](const ForestPhaseMemory& arrays, OwnerGuess guess) {
        if (args.kept_lists.counts != nullptr) *args.kept_lists.written = 0;  // until the plan is written
        keeper.finish(*arrays.result, guess);
        *args.report = {*arrays.result, 0};
      });
}

/// The same kernel for clusters, which is compiled for devices that have them.
const void* cluster_forest_kernel();

}  // namespace trunkline::cuda
