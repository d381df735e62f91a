#include "cli/task_trace.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::cli {
namespace {

constexpr std::int32_t kIdsOfLaunch = 1000;

using Json = nlohmann::ordered_json;

std::uint64_t first_begin(std::span<const experimental::CudaTaskTime> tasks) {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const experimental::CudaTaskTime& task : tasks) first = std::min(first, task.begin_ns);
  return first;
}

double us_between(std::uint64_t begin_ns, std::uint64_t end_ns) {
  return end_ns > begin_ns ? static_cast<double>(end_ns - begin_ns) / 1e3 : 0;
}

std::int64_t tokens_of(const WorkItem& item, const TracedRun& run) {
  std::int64_t tokens = 0;
  for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
    const KvSpan& span = run.plan.spans[static_cast<std::size_t>(i)];
    tokens += span.at(run.kv_lens[static_cast<std::size_t>(span.slot)]).size();
  }
  return tokens;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::int32_t worker_of(const experimental::CudaTaskTime& task, const TracedRun& run) {
  if (!run.launch_per_tile) return task.worker;
  return task.worker + kIdsOfLaunch * run.plan.items.at(static_cast<std::size_t>(task.item)).tile.m;
}

}  // namespace

std::vector<experimental::CudaTaskTime> own_times(const TracedRun& run) {
  std::vector<experimental::CudaTaskTime> tasks(run.tasks.begin(), run.tasks.end());
  std::sort(tasks.begin(), tasks.end(), [](const auto& a, const auto& b) {
    return std::pair(a.end_ns, a.begin_ns) < std::pair(b.end_ns, b.begin_ns);
  });
  std::map<std::int32_t, std::uint64_t> last_end;
  for (experimental::CudaTaskTime& task : tasks) {
    std::uint64_t& end = last_end[worker_of(task, run)];
    task.begin_ns = std::max(task.begin_ns, end);
    end = task.end_ns;
  }
  return tasks;
}

double bubble_share(const TracedRun& run, std::int32_t workers) {
  if (run.tasks.empty()) return 0;
  std::uint64_t last = 0;
  double busy = 0;
  for (const experimental::CudaTaskTime& task : own_times(run)) {
    last = std::max(last, task.end_ns);
    busy += us_between(task.begin_ns, task.end_ns);
  }
  const double all = workers * us_between(first_begin(run.tasks), last);
  return all > 0 ? 1 - busy / all : 0;
}

ChromeTrace::ChromeTrace(std::ostream& out) : out_(out) {
  out_ << R"({"displayTimeUnit":"ns","traceEvents":[)";
}

void ChromeTrace::event(const std::string& json) {
  out_ << (first_ ? "\n" : ",\n") << json;
  first_ = false;
}

void ChromeTrace::add(const TracedRun& run) {
  const std::int32_t first_pid = kTraceIdsOfBatch * batches_++;
  std::set<std::int32_t> sms;
  for (const experimental::CudaTaskTime& task : run.tasks) sms.insert(task.sm);
  for (const std::int32_t sm : sms) {
    event(text_of({{"name", "process_name"},
                   {"ph", "M"},
                   {"pid", first_pid + sm},
                   {"args", {{"name", concat(run.batch, ", SM ", sm)}}}}));
  }
  const std::uint64_t start = first_begin(run.tasks);
  for (const experimental::CudaTaskTime& task : own_times(run)) {
    const WorkItem& item = run.plan.items.at(static_cast<std::size_t>(task.item));
    event(text_of({{"name", concat("item ", task.item, " head ", task.head)},
                   {"ph", "X"},
                   {"pid", first_pid + task.sm},
                   {"tid", worker_of(task, run)},
                   {"ts", us_between(start, task.begin_ns)},
                   {"dur", us_between(task.begin_ns, task.end_ns)},
                   {"args",
                    {{"rows", item.queries.size() * run.plan.shape.group_size()},
                     {"tokens", tokens_of(item, run)},
                     {"tile", concat(item.tile.m, "x", item.tile.n)}}}}));
  }
}

void ChromeTrace::finish() {
  out_ << "\n]}\n";
}

}  // namespace trunkline::cli
