// One case on the device: its tensors, their check, and the times of plans on them.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "cli/cuda/device.hpp"
#include "cli/cuda/tensors.hpp"
#include "cli/oracle_check.hpp"
#include "gpu/cases.hpp"
#include "gpu/row.hpp"
#include "kv/paged_batch.hpp"
#include "kv/synthetic_cache.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::gpu_bench {

/// What all cases share: the device, a planner for it, an executor for each way to launch and merge.
struct Machine {
  ThreadPool workers;
  CudaDeviceInfo device;
  Planner planner;
  cli::Stream stream;
  cli::ColdTimer timer;

  /// \param threads that make tensors and check. \throws Error where CUDA cannot be used.
  explicit Machine(int threads);
  /// \throws Error(kUnsupported) where the device cannot run them.
  CudaExecutor& executor(ForwardMode forward, MergeMode merge);

 private:
  std::map<std::pair<ForwardMode, MergeMode>, CudaExecutor> executors_;
};

/// Tensors of a case, made once for all methods.
class CaseRun {
 public:
  CaseRun(Machine& machine, const Case& test);

  /// Checks the output, then times: the row has "passed", and times only where that is true.
  Json measure(const Method& method, int repeat);
  /// A run that is not counted, then one between cudaProfilerStart and cudaProfilerStop; the row has neither a check
  /// nor times.
  Json run_once(const Method& method);

 private:
  struct Ready;  // a plan on the device

  Json check(const Ready& ready);
  void time(Ready& ready, const Method& method, int repeat, Json& row);
  void time_tasks(const Ready& ready, const Method& method, Json& row);

  Machine& machine_;
  const Case& test_;
  PagedBatch paged_;
  Forest forest_;
  SyntheticCache cache_;
  cli::DeviceTensors tensors_;
  std::optional<cli::Oracle> oracle_;  // made when first needed
};

}  // namespace trunkline::gpu_bench
