// Steps of a replay that are really run, and checked against plain attention.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/measure.hpp"
#include "cli/options.hpp"
#include "cli/oracle_check.hpp"
#include "cli/run_backend.hpp"
#include "trunkline/live.hpp"

namespace trunkline::cli {

struct PolicyTiming {
  Policy policy = Policy::kFlat;
  Timing timing;
};

struct ExecutedStep {
  std::int32_t rows = 0;  ///< requests that were compared
  OracleError error;      ///< of the step's plan, and of all that were timed
  bool passed = false;
  std::vector<PolicyTiming> times;  ///< of plans made anew, taken in turn; without --repeat: none
};

/// Runs a step's plan, as it was kept or edited, over made-up tensors for the batch as it is.
class StepExecutor {
 public:
  /// \param options, \param workers outlive the executor
  /// \throws Error when tensors for a full pool need more memory than there is; as the backends.
  StepExecutor(const Options& options, Workers& workers);
  ~StepExecutor();

  ExecutedStep run(LiveBatch& live, const Plan& plan);
  /// That the plans of the replay must be made for.
  const MachineProfile& profile() const { return backend_->planner().profile(); }
  const RunDevice& device() const { return backend_->device(); }

 private:
  std::vector<Plan> plans_of(const Forest& forest, const Plan& plan);

  Options options_;
  Workers& workers_;
  std::unique_ptr<RunBackend> backend_;
};

}  // namespace trunkline::cli
