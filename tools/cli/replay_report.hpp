// Output of `trunkline replay`, printed and as JSON.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "cli/options.hpp"
#include "cli/replay_execute.hpp"
#include "replay/replay_totals.hpp"
#include "replay/trace.hpp"

namespace trunkline::cli {

/// Steps that were run, summed up.
struct ExecutedSteps {
  std::int64_t steps = 0;
  std::int64_t wrong = 0;
  OracleError error;
};

struct ReplayResult {
  const Options& options;
  const replay::Trace& trace;
  const replay::ReplayTotals& totals;
  const replay::SchedulerCounts& counts;
  std::int64_t prompt_steps = 0;
  std::int64_t evicted_pages = 0;
  double seconds = 0;   ///< by the clock of the replay
  std::string machine;  ///< name of the profile
  ExecutedSteps executed;
};

/// One line of JSON, without its end.
std::string step_to_json(const replay::StepRecord& step, const std::optional<ExecutedStep>& executed);
std::string summary_to_json(const ReplayResult& result);

void print_replay(std::ostream& out, const ReplayResult& result);

}  // namespace trunkline::cli
