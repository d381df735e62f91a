// One case on the device: its tensors, their check, and the times of plans on them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/cuda/device.hpp"
#include "cli/cuda/tensors.hpp"
#include "cli/oracle_check.hpp"
#include "gpu/cases.hpp"
#include "gpu/row.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/synthetic_cache.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::gpu_bench {

/// The device, a planner for it, and an executor for each way to launch and merge; all cases of a kind of kernels and a
/// head size share them.
struct Machine {
  ThreadPool workers;
  CudaDeviceInfo device;
  Planner planner;
  cli::Stream stream;
  cli::ReplayTimer timer;

  CudaKernels kernels;  // that `wanted` stands for: never kAuto
  /// \param threads that make tensors and check \param wanted of all runs; kAuto also has what no family has
  /// \throws Error where CUDA cannot be used, or the device cannot run them.
  Machine(int threads, CudaKernels wanted, CudaKernels kernels, std::int32_t head_dim);
  /// \throws Error(kUnsupported) where the device cannot run them.
  CudaExecutor& executor(const experimental::CudaStudy& launch);

 private:
  CudaKernels wanted_;
  std::map<std::pair<experimental::ForwardMode, MergeMode>, CudaExecutor> executors_;
};

/// Tensors of a case, made once for all methods.
class CaseRun {
 public:
  CaseRun(Machine& machine, const Case& test, PageOrder order);

  ~CaseRun();

  /// A row for each method that the device can run; the others are named on standard error. Checks the outputs, then
  /// times: a row has "passed", and times only where that is true. The runs of all methods are replayed in turn.
  std::vector<Json> measure(const std::vector<Method>& methods, int repeat);
  /// Runs each method once without counting it, then once between cudaProfilerStart and cudaProfilerStop; rows have
  /// neither a check nor times.
  std::vector<Json> run_once(const std::vector<Method>& methods);

 private:
  struct Ready;  // a method's plan on the device

  std::vector<std::unique_ptr<Ready>> prepare(const std::vector<Method>& methods);
  const AttentionArgs& varied(AttentionArgs& args) const;
  void rotate(Ready& ready, cudaStream_t stream);
  Json checked_row(Ready& ready);
  void add_time(const Ready& ready, std::vector<double> us, Json& row);
  void add_tasks(Ready& ready, Json& row);
  void add_steps(Ready& ready, int repeat, Json& row);

  Machine& machine_;
  const Case& test_;
  PageOrder order_;
  PagedBatch paged_;
  Forest forest_;
  SyntheticCache cache_;
  std::vector<float> sinks_;
  AttentionArgs args_;
  cli::DeviceTensors tensors_;
  std::optional<cli::Oracle> oracle_;  // made when first needed
};

}  // namespace trunkline::gpu_bench
