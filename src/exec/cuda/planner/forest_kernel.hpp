// The forest of a batch in device memory, found there; see plan/team/forest_phase.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/forest_phase.hpp"
#include "plan/team/steady_rows.hpp"
#include "plan/team/team_batch.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/uploaded_plan.hpp"

namespace trunkline::cuda {

/// What a launch leaves besides the forest's arrays.
struct ForestReport {
  ForestPhaseResult found;
  std::int32_t kept;  ///< 1: the step was steady, and the arrays and `found` are those of the step that was planned
};

/// Which lists a planner wrote last. Known on the device alone, where graphs replay in any order.
struct KeptLists {
  ListCounts* counts = nullptr;      ///< of the lists at hand
  std::uint64_t* written = nullptr;  ///< [1] address of the counts of those that were written last; 0: of none
  std::uint64_t planner = 0;         ///< ListCounts::planner of its own

  /// What decides it, to be read some time ahead of that.
  struct Found {
    std::uint64_t written = 0;
    std::uint64_t planner = 0;
  };
  TRUNKLINE_HOST_DEVICE Found find() const { return counts == nullptr ? Found{} : Found{*written, counts->planner}; }
  TRUNKLINE_HOST_DEVICE bool hold(const Found& found) const {
    if (counts == nullptr) return true;
    return found.written == reinterpret_cast<std::uint64_t>(counts) && found.planner == planner;
  }
};

/// All in device memory.
struct ForestArgs {
  TeamBatch batch;
  TeamForest forest;     ///< arrays with room for the batch's rows, to be filled; counts are in the report
  SteadyRows steady;     ///< where to keep what a steady step is compared with; null: every step is planned
  KeptLists kept_lists;  ///< whether the lists at hand are those of the step that was planned; null: they are
  std::int32_t growth;   ///< tokens by which a row may grow in steady steps
  ForestReport* report;  ///< [1]
  std::byte* scratch;    ///< [forest_scratch_bytes(rows)] aligned to 16 bytes; null where that is 0
};

/// Threads of a planning block: of 1,024 each would have 64 registers, which are not enough.
inline constexpr std::int32_t kPlannerThreads = 512;  // sixteen warps: what PairLanes and each_warp_for take

/// Device memory that a batch of so many rows needs because a block's shared memory does not hold it: 0 up to about
/// 1,580 rows on an A100 and 2,120 on an H100.
std::size_t forest_scratch_bytes(std::int32_t rows);

/// What a block needs of its own shared memory.
std::size_t forest_shared_bytes(const ForestArgs& args);

/// \param cluster whether a cluster of blocks does it, as devices of compute capability 9 can, or one block
/// The launch depends on the rows, addresses and null page alone, so that it can be captured.
cudaError_t launch_forest(const ForestArgs& args, bool cluster, cudaStream_t stream);

}  // namespace trunkline::cuda
