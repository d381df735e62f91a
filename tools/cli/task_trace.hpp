// When and where each task of a run ran, as a trace that chrome://tracing and Perfetto show, and how much of the
// workers' time had no task.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "trunkline/cuda.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cli {

/// Process ids of a trace that belong to one batch: more than any GPU has SMs.
inline constexpr std::int32_t kTraceIdsOfBatch = 1000;

/// One recorded run.
struct TracedRun {
  std::string batch;                      ///< its name
  const Plan& plan;                       ///< what ran
  std::span<const std::int32_t> kv_lens;  ///< live lengths, by slot
  bool launch_per_tile = false;           ///< workers of each tile's launch count from 0
  std::span<const experimental::CudaTaskTime> tasks;
};

/// Its tasks by the time they end, each from when its worker had ended the one before: copies for a task begin earlier.
std::vector<experimental::CudaTaskTime> own_times(const TracedRun& run);

/// Bubbles as PAT's figure 13 shows them, white space between and after the tasks: 1 - sum of the tasks' own times /
/// (workers x (last end - first begin)). 0 without tasks.
/// \param workers that the device runs at once; those that had no task were idle all the time
double bubble_share(const TracedRun& run, std::int32_t workers);

/// Writes {"traceEvents": [...]}: a process for each SM of a batch (pid = SM, and 1,000 more for each batch), a thread
/// for each worker (tid = worker; rows of the tile x 1,000 more where each tile has a launch of its own), a complete
/// event for each task, in microseconds from the batch's first begin.
class ChromeTrace {
 public:
  /// \param out outlives the trace
  explicit ChromeTrace(std::ostream& out);
  void add(const TracedRun& run);
  /// Once, at the end.
  void finish();

 private:
  void event(const std::string& json);

  std::ostream& out_;
  std::int32_t batches_ = 0;
  bool first_ = true;
};

}  // namespace trunkline::cli
