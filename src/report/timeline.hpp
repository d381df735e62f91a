// When each worker has which task: as the cost model predicts it, or as a trace of a run recorded it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/task_costs.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::report {

/// One (item, KV head), on the worker that did it.
struct WorkerTask {
  std::int32_t worker = 0;  ///< any number; timelines number workers anew, in this order
  std::int32_t item = 0;
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
};

/// Tasks of one worker that are drawn as one.
struct TaskBlock {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::int32_t tasks = 0;
  std::int32_t item = 0;  ///< of the longest task
};

struct Timeline {
  std::vector<std::vector<TaskBlock>> workers;  ///< by worker, by time; without a task: idle all the time
  Nanoseconds begin = 0;                        ///< of the first task
  Nanoseconds end = 0;                          ///< of the last
  Nanoseconds busy = 0;                         ///< sum of all tasks
  std::int64_t tasks = 0;
  Nanoseconds resolution = 0;  ///< tasks of one worker within so much time are one block; 0: each is one

  /// Share of the workers' time from `begin` to `end` that has no task; 0 without tasks.
  double bubble_share() const;
};

/// Most blocks that one timeline is drawn with, unless there are more workers.
inline constexpr std::size_t kDrawnBlocks = 8000;

/// Workers that take the plan's tasks in its schedule's order, each as soon as it is free.
/// \param item_costs [items] of each item in one KV head
/// \param launch when workers begin
Timeline predicted_timeline(const Plan& plan, std::span<const Nanoseconds> item_costs, std::int32_t workers,
                            Nanoseconds launch, std::size_t max_blocks = kDrawnBlocks);

/// \param tasks of one run; those of one worker do not overlap
/// \param workers that the device runs at once; more where more of them had a task
Timeline measured_timeline(std::span<const WorkerTask> tasks, std::int32_t workers,
                           std::size_t max_blocks = kDrawnBlocks);

}  // namespace trunkline::report
