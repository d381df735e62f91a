// Times of the compiled kernels on a GPU, measured with the real executor on batches made for it.
#pragma once

#include <cstdint>

#include "cli/cuda/device.hpp"
#include "cli/cuda/tensors.hpp"
#include "cli/probe_batch.hpp"
#include "cli/tile_times.hpp"
#include "cli/tuned_device.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cli {

class DeviceProbes {
 public:
  /// \param profile for planning: tiles, workers
  DeviceProbes(std::int32_t device, const MachineProfile& profile, ReplayTimer& timer, const Stream& stream);

  CostTimes cost_times();
  /// \param costs of what is no item's own
  TileTimes tile_times(const DeviceCosts& costs);
  /// C(rows, tokens) of items that all read the same tokens, from the L2 cache; empty where that is too small.
  CostTable cached_table(const DeviceCosts& costs);

 private:
  /// Q, O, K and V that all probes use, one at a time.
  struct Tensors {
    std::int64_t pages;
    std::int64_t requests;
    DeviceArray q, k, v, out;
    Tensors(std::int64_t pages, std::int64_t requests);
  };
  struct Timed {
    double us;
    double tasks_each;
  };

  Timed time(const ProbeTree& tree, std::int32_t group, const PlanOptions& options, Caches caches = Caches::kCold);
  CostTimes::Cut time_cut(std::int32_t roots, std::int32_t queries);
  AttentionArgs args_for(const AttentionShape& shape) const;

  ReplayTimer& timer_;
  const Stream& stream_;
  CudaExecutor executor_;
  Planner planner_;
  Tensors tensors_;
};

}  // namespace trunkline::cli
