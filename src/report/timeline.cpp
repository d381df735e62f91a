#include "report/timeline.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

namespace trunkline::report {
namespace {

// The finest a folded timeline is drawn: about the pixels of a wide window.
constexpr Nanoseconds kSteps = 2048;

// Tasks of one worker, by time. A block never covers more than `resolution`, unless one task does.
std::vector<TaskBlock> fold(const std::vector<TaskBlock>& tasks, Nanoseconds resolution) {
  std::vector<TaskBlock> blocks;
  Nanoseconds longest = 0;  // of the open block's tasks
  for (const TaskBlock& task : tasks) {
    const Nanoseconds length = task.end - task.begin;
    if (blocks.empty() || task.end - blocks.back().begin > resolution) {
      blocks.push_back(task);
      longest = length;
      continue;
    }
    TaskBlock& block = blocks.back();
    block.end = task.end;
    block.tasks += task.tasks;
    if (length > longest) block.item = task.item;
    longest = std::max(longest, length);
  }
  return blocks;
}

std::size_t blocks_of(const std::vector<std::vector<TaskBlock>>& workers) {
  std::size_t blocks = 0;
  for (const std::vector<TaskBlock>& worker : workers) blocks += worker.size();
  return blocks;
}

void fold_to(Timeline& timeline, std::size_t max_blocks) {
  const std::size_t limit = std::max(max_blocks, timeline.workers.size());
  if (blocks_of(timeline.workers) <= limit) return;
  const std::vector<std::vector<TaskBlock>> all = std::move(timeline.workers);
  const Nanoseconds span = timeline.end - timeline.begin;
  timeline.resolution = std::max<Nanoseconds>(span / kSteps, 1);
  for (;; timeline.resolution += timeline.resolution / 4 + 1) {
    timeline.workers.clear();
    for (const std::vector<TaskBlock>& worker : all) timeline.workers.push_back(fold(worker, timeline.resolution));
    if (blocks_of(timeline.workers) <= limit || timeline.resolution > span) return;
  }
}

void add(Timeline& timeline, std::size_t worker, const TaskBlock& task) {
  timeline.begin = timeline.tasks == 0 ? task.begin : std::min(timeline.begin, task.begin);
  timeline.end = std::max(timeline.end, task.end);
  timeline.busy += task.end - task.begin;
  timeline.tasks += task.tasks;
  timeline.workers[worker].push_back(task);
}

}  // namespace

double Timeline::bubble_share() const {
  const double all = static_cast<double>(workers.size()) * static_cast<double>(end - begin);
  return all > 0 ? 1 - static_cast<double>(busy) / all : 0;
}

Timeline predicted_timeline(const Plan& plan, std::span<const Nanoseconds> item_costs, std::int32_t workers,
                            Nanoseconds launch, std::size_t max_blocks) {
  Timeline timeline;
  timeline.workers.resize(static_cast<std::size_t>(workers));
  using Free = std::pair<Nanoseconds, std::size_t>;  // when, who
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (std::size_t worker = 0; worker < timeline.workers.size(); ++worker) free.emplace(launch, worker);
  for (const std::int32_t item : plan.schedule) {
    for (std::int32_t head = 0; head < plan.shape.kv_heads; ++head) {
      const auto [begin, worker] = free.top();
      free.pop();
      const Nanoseconds end = begin + item_costs[static_cast<std::size_t>(item)];
      add(timeline, worker, {begin, end, 1, item});
      free.emplace(end, worker);
    }
  }
  fold_to(timeline, max_blocks);
  return timeline;
}

Timeline measured_timeline(std::span<const WorkerTask> tasks, std::int32_t workers, std::size_t max_blocks) {
  std::map<std::int32_t, std::size_t> place_of;
  for (const WorkerTask& task : tasks) place_of.emplace(task.worker, 0);
  std::size_t next = 0;
  for (auto& [worker, place] : place_of) place = next++;
  std::vector<WorkerTask> ordered(tasks.begin(), tasks.end());
  std::sort(ordered.begin(), ordered.end(), [](const WorkerTask& a, const WorkerTask& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  Timeline timeline;
  timeline.workers.resize(std::max(place_of.size(), static_cast<std::size_t>(workers)));
  for (const WorkerTask& task : ordered) {
    add(timeline, place_of.at(task.worker), {task.begin, task.end, 1, task.item});
  }
  fold_to(timeline, max_blocks);
  return timeline;
}

}  // namespace trunkline::report
