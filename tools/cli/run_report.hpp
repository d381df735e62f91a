// Output of `trunkline run`: the results of a batch, as a table and as JSON.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "cli/measure.hpp"
#include "cli/options.hpp"
#include "cli/oracle_check.hpp"
#include "cli/run_backend.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cli {

struct CheckResult {
  OracleError error;      ///< the largest of all plans that were timed
  std::int32_t rows = 0;  ///< requests compared
  bool passed = false;
};

struct PolicyTime {
  Policy policy = Policy::kFlat;
  Timing timing;
};

struct RunResult {
  std::string suite, label, source;
  std::int32_t requests = 0;
  Policy chosen = Policy::kFlat;
  PlanStatistics statistics;  ///< of the chosen plan
  /// KV tokens, by each of packing_policies(); none where a policy cannot plan for these tiles.
  std::vector<std::optional<std::int64_t>> tokens_read;
  Timing flat, policy;
  std::vector<PolicyTime> times;                      ///< of every policy, where all were asked for
  double forest_us = 0, plan_us = 0, resolve_us = 0;  ///< medians, of the chosen policy
  std::optional<double> upload_us;                    ///< likewise, on cuda
  std::optional<double> bubble_share;                 ///< of the traced run of the chosen policy
  MachineRates rates;
  double floor_us = 0;
  std::size_t plan_bytes = 0, workspace_bytes = 0;
  std::optional<CheckResult> check;

  double speed_up() const { return flat.us / policy.us; }
  /// Time of the chosen policy over the fastest one's; needs `times`.
  double regret() const;
};

/// The settings that all batches of a run share.
struct RunSetting {
  const Options& options;
  std::int32_t threads = 0;
  const RunDevice& device;
  std::string machine;  ///< name of the profile that plans are made with
};

void print_run_tables(std::ostream& out, const RunSetting& setting, const std::vector<RunResult>& results);
/// One object on one line.
std::string run_to_json(const RunSetting& setting, const RunResult& result);

}  // namespace trunkline::cli
