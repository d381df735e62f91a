// What both kernels that find a forest do, whatever their team.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/common/ptx.cuh"
#include "exec/cuda/planner/forest_kernel.hpp"
#include "plan/team/forest_phase.hpp"
#include "plan/team/steady_rows.hpp"

namespace trunkline::cuda {

/// What a step comes to.
enum class FoundForest : std::uint8_t {
  kKept,  ///< it was steady: the forest is the last one
  kAll,   ///< known to all
  kNear,  ///< each block has it near, and its result in its own memory
};

/// \param own ForestPhaseMemory's, of each block, or the same for all \param memory the lead's
/// \param team that has begun \param beside find_forest's
template <class Team, class Beside>
__device__ __forceinline__ FoundForest run_forest(Team& team, const ForestArgs& args, std::byte* own, std::byte* memory,
                                                  const Beside& beside) {
  // Before rows are waited for, as all that earlier kernels wrote was there before these were looked at.
  const LastStep last = LastStep::of(args.steady, beside.has_near());
  wait_for_kernel_before();
  if (args.steady.rows != nullptr && is_steady(team.lanes(), args.batch, args.steady, args.kept_lists)) {
    if (blockIdx.x == 0 && threadIdx.x == 0) args.report->kept = 1;
    return FoundForest::kKept;
  }
  team.arrive();
  beside.settle();
  const SteadyKeeper keeper(args.batch, args.growth, args.steady);
  const bool near = find_forest(
      team, args.batch, last, args.steady, own, memory, args.forest,
      [&](const ForestPhaseMemory& arrays, std::int32_t row, bool alone) { keeper.keep(arrays.sharing, row, alone); },
      [&](const ForestPhaseMemory& arrays, OwnerGuess guess) {
        const LastForest before = keeper.last();  // on its way while the report is written
        *args.report = {*arrays.result, 0};
        // Until the plan is written, unless that is by this kernel too.
        if (args.kept_lists.counts != nullptr && !beside.plans()) *args.kept_lists.written = 0;
        keeper.finish(*arrays.result, guess, before);
      },
      beside);
  return near ? FoundForest::kNear : FoundForest::kAll;
}

}  // namespace trunkline::cuda
