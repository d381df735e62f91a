#include "plan/cost_classes.hpp"

#include <algorithm>

namespace trunkline {
namespace {

// More placements than this one by one cost more planning time than their exact order is worth.
constexpr std::int64_t kExactTasks = 512;

/// Adds to the least element of a min-heap. \return its new value.
Nanoseconds add_to_min(std::vector<Nanoseconds>& heap, Nanoseconds cost) {
  const Nanoseconds value = heap.front() + cost;
  std::size_t hole = 0;
  for (std::size_t child = 1; child < heap.size(); child = 2 * hole + 1) {
    if (child + 1 < heap.size() && heap[child + 1] < heap[child]) ++child;
    if (heap[child] >= value) break;
    heap[hole] = heap[child];
    hole = child;
  }
  heap[hole] = value;
  return value;
}

}  // namespace

// List scheduling, longest task first. Where the workers' loads differ by no more than a task, whole rounds of equal
// tasks are spread uniformly over the workers; otherwise the next task goes to the least loaded worker. When too many
// tasks were placed one by one, list scheduling's bound stands for the rest: no worker is idle before the last task
// begins, so all workers end by the mean load plus one task, the longest that is left.
Nanoseconds CostClasses::makespan(std::int32_t workers, std::int32_t copies, std::vector<Nanoseconds>& loads) const {
  loads.assign(static_cast<std::size_t>(workers), 0);
  Nanoseconds rounds = 0;   // uniform load, which every worker has
  Nanoseconds longest = 0;  // load beyond that
  std::int64_t placed = 0;
  for (std::size_t i = next_below(kClasses); i != kNone; i = next_below(i)) {
    const Nanoseconds cost = classes_[i].mean();
    std::int64_t tasks = classes_[i].tasks * copies;
    while (tasks > 0) {
      if (tasks >= workers && longest - loads.front() <= cost) {
        rounds = std::min(rounds + product(tasks / workers, cost), kMaxSum);
        tasks %= workers;
        continue;
      }
      if (++placed > kExactTasks) {
        const Nanoseconds mean = product(total(), copies) / workers;
        return std::max(rounds + longest, mean + cost - cost / workers);
      }
      longest = std::max(longest, add_to_min(loads, cost));
      --tasks;
    }
  }
  return rounds + longest;
}

}  // namespace trunkline
