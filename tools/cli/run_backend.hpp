// The backend on which `trunkline run` runs plans: the CPU, or a CUDA device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/batch_file.hpp"
#include "cli/measure.hpp"
#include "cli/options.hpp"
#include "cli/oracle_check.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/attention.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/threads.hpp"

namespace trunkline::cli {

/// The facts about a backend that reports name.
struct RunDevice {
  std::string place;                ///< "cpu" or "cuda:0"
  std::string name;                 ///< model of the CPU or GPU
  std::string isa;                  ///< instruction set of the kernels on the CPU, compute capability of a GPU
  std::optional<std::string> mode;  ///< how items are launched; nothing on the CPU
  std::string merge;
  OracleError tolerance;  ///< what --check accepts
};

/// Rates that a device reaches: on the CPU measured beside a batch, on a GPU taken from the profile.
struct MachineRates {
  double read_bytes_per_us = 0;  ///< streaming read
  double flops_per_us = 0;       ///< fp32 FMA on the CPU, 16-bit matrix product on a GPU
};

/// A batch in the host's memory. All that is referred to outlives what is made from it.
struct HostBatch {
  const PagedBatch& paged;
  const Batch& batch;
  const AttentionArgs& tensors;  ///< fp32 O and LSE in the default strides
};

/// A batch's tensors and several plans of it, ready to run.
class LoadedBatch {
 public:
  virtual ~LoadedBatch() = default;
  virtual const Plan& plan(std::size_t index) const = 0;
  virtual std::size_t workspace_bytes(std::size_t index) const = 0;

  /// Median of fitting a plan to live lengths, as each step does once.
  virtual double resolve_us(std::size_t index) = 0;
  /// Median of taking a plan to the device, until it is there; nothing on the CPU.
  virtual std::optional<double> upload_us(std::size_t index) = 0;
  /// One layer by each plan, taken in turn, so that a machine whose speed drifts slows all plans equally.
  virtual std::vector<Timing> time() = 0;
  /// Call it after time(), which may measure them.
  virtual MachineRates rates() const = 0;
  /// Least time of one layer on a machine of these rates.
  virtual double floor_us(const PlanStatistics& statistics) const = 0;

  /// Runs a plan over outputs full of NaN, so that one which is not written is not taken for that of the run before,
  /// and leaves them in the host's tensors.
  virtual void run(std::size_t index) = 0;
  /// When and where each task of a plan ran, in one more run. \throws Error on the CPU.
  virtual std::vector<experimental::CudaTaskTime> record(std::size_t index) = 0;
};

class RunBackend {
 public:
  virtual ~RunBackend() = default;
  virtual const RunDevice& device() const = 0;
  virtual Planner& planner() = 0;
  /// (item, KV head) tasks that can run at once.
  virtual std::int32_t workers() const = 0;
  virtual std::unique_ptr<LoadedBatch> load(const HostBatch& batch, std::vector<Plan> plans) = 0;
};

/// Repeats of host work that a step does once. It takes microseconds, so it is timed a few more times than a layer.
inline int host_repeats(const Options& options) {
  return std::max(options.repeat, 5);
}

/// \param workers outlive the backend
/// \throws Error when some batch needs more memory than there is, before anything is allocated.
std::unique_ptr<RunBackend> make_cpu_backend(const Options& options, const std::vector<DecodeBatch>& batches,
                                             Workers& workers);

}  // namespace trunkline::cli
