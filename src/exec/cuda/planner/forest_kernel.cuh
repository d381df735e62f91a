// What both kernels that find a forest do, whatever their team.
#pragma once

#include <cstddef>

#include "exec/cuda/planner/forest_kernel.hpp"
#include "plan/team/forest_phase.hpp"
#include "plan/team/steady_rows.hpp"

namespace trunkline::cuda {

/// \param own ForestPhaseMemory's, of each block, or the same for all \param memory the lead's
/// \param meanwhile find_forest's \return to all threads, whether the step was steady: then the forest is the last one
template <class Team, class Meanwhile>
__device__ __forceinline__ bool run_forest(Team& team, const ForestArgs& args, std::byte* own, std::byte* memory,
                                           Meanwhile meanwhile) {
  team.arrive();
  const LastStep last = LastStep::of(args.steady);
  if (args.steady.rows != nullptr &&
      is_steady(team, args.batch, args.steady, [&args] { return args.kept_lists.hold(); })) {
    if (blockIdx.x == 0 && threadIdx.x == 0) args.report->kept = 1;
    return true;
  }
  const SteadyKeeper keeper(args.batch, args.forest.query_begin, args.growth, args.steady);
  find_forest(
      team, args.batch, last, args.steady, own, memory, args.forest,
      [&](const ForestPhaseMemory& arrays, std::int32_t row, bool alone) { keeper.keep(arrays.sharing, row, alone); },
      [&](const ForestPhaseMemory& arrays, OwnerGuess guess) {
        const LastForest before = keeper.last();                              // on its way while the report is written
        if (args.kept_lists.counts != nullptr) *args.kept_lists.written = 0;  // until the plan is written
        *args.report = {*arrays.result, 0};
        keeper.finish(*arrays.result, guess, before);
      },
      meanwhile);
  return false;
}

}  // namespace trunkline::cuda
