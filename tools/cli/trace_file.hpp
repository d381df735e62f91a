// Reading back what `run --trace` wrote.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/plan_page.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cli {

/// One (item, KV head) of a recorded run, with what the trace says of its item.
struct TracedTask {
  report::WorkerTask task;
  std::int32_t head = 0;
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::string tile;       ///< as 64x128
  std::size_t event = 0;  ///< index into traceEvents, for messages
};

/// The tasks of one batch of a trace; of the first, where several have the name.
/// \param name of the file, for messages
/// \param batch as `run` names it: suite:label
/// \throws Error(kParse) naming the event and field that is wrong, or the batches that are there
std::vector<TracedTask> parse_task_trace(std::string_view text, const std::string& name, const std::string& batch);

/// The recorded run as the plan's whose items it did, of which `chosen` is tried first.
/// \throws Error(kInvalidArgument) naming the first event that does not fit the chosen plan, where no plan fits
report::MeasuredRun match_trace(const std::vector<TracedTask>& tasks, const std::string& name, const Forest& forest,
                                const std::vector<Plan>& plans, Policy chosen);

}  // namespace trunkline::cli
