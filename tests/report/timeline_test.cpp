#include "report/timeline.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace trunkline::report {
namespace {

Plan plan_of(std::vector<std::int32_t> schedule, std::int32_t kv_heads) {
  Plan plan;
  plan.shape.kv_heads = kv_heads;
  plan.items.resize(schedule.size());
  plan.schedule = std::move(schedule);
  return plan;
}

TEST(PredictedTimeline, GivesEachTaskToTheFirstFreeWorker) {
  const std::vector<Nanoseconds> costs = {30, 100, 50};
  const Timeline timeline = predicted_timeline(plan_of({1, 2, 0}, 1), costs, 2, 1000);
  ASSERT_EQ(timeline.workers.size(), 2U);
  ASSERT_EQ(timeline.workers[0].size(), 1U);
  ASSERT_EQ(timeline.workers[1].size(), 2U);
  EXPECT_EQ(timeline.workers[0][0].end, 1100);
  EXPECT_EQ(timeline.workers[1][0].item, 2);
  EXPECT_EQ(timeline.workers[1][1].begin, 1050);
  EXPECT_EQ(timeline.workers[1][1].end, 1080);
  EXPECT_EQ(timeline.begin, 1000);
  EXPECT_EQ(timeline.end, 1100);
  EXPECT_EQ(timeline.tasks, 3);
  EXPECT_EQ(timeline.resolution, 0);
  EXPECT_DOUBLE_EQ(timeline.bubble_share(), 1 - 180.0 / 200);
}

TEST(PredictedTimeline, DoesEachItemOnceForEachHead) {
  const std::vector<Nanoseconds> costs = {10, 20};
  const Timeline timeline = predicted_timeline(plan_of({1, 0}, 4), costs, 64, 0);
  EXPECT_EQ(timeline.tasks, 8);
  EXPECT_EQ(timeline.busy, 4 * 30);
  EXPECT_EQ(timeline.workers.size(), 64U) << "idle ones too";
  EXPECT_TRUE(timeline.workers[8].empty());
  EXPECT_DOUBLE_EQ(timeline.bubble_share(), 1 - 120.0 / (64 * 20));
}

TEST(PredictedTimeline, OfNothingHasNoBubbles) {
  EXPECT_EQ(predicted_timeline(plan_of({}, 8), {}, 3, 5).bubble_share(), 0);
  EXPECT_EQ(measured_timeline({}, 3).workers.size(), 3U);
}

TEST(MeasuredTimeline, NumbersWorkersAnewAndKeepsGaps) {
  const std::vector<WorkerTask> tasks = {{64007, 1, 30, 50}, {16003, 0, 0, 40}, {64007, 2, 5, 20}};
  const Timeline timeline = measured_timeline(tasks, 4);
  ASSERT_EQ(timeline.workers.size(), 4U);
  ASSERT_EQ(timeline.workers[0].size(), 1U) << "16003";
  ASSERT_EQ(timeline.workers[1].size(), 2U) << "64007";
  EXPECT_EQ(timeline.workers[1][0].item, 2);
  EXPECT_EQ(timeline.workers[1][1].begin, 30);
  EXPECT_DOUBLE_EQ(timeline.bubble_share(), 1 - 75.0 / (4 * 50));
  EXPECT_EQ(measured_timeline(tasks, 1).workers.size(), 2U) << "more than the profile has";
}

TEST(Timelines, FoldTasksThatAreTooManyToDraw) {
  std::vector<Nanoseconds> costs(5000, 10);
  costs[17] = 4000;  // drawn by itself
  std::vector<std::int32_t> schedule(costs.size());
  for (std::size_t i = 0; i < schedule.size(); ++i) schedule[i] = static_cast<std::int32_t>(i);
  const Timeline whole = predicted_timeline(plan_of(schedule, 2), costs, 3, 0, 100000);
  const Timeline folded = predicted_timeline(plan_of(schedule, 2), costs, 3, 0, 200);
  EXPECT_EQ(whole.resolution, 0);
  EXPECT_GT(folded.resolution, 0);
  EXPECT_DOUBLE_EQ(folded.bubble_share(), whole.bubble_share()) << "counted before folding";
  std::int64_t tasks = 0;
  std::size_t blocks = 0;
  int long_ones = 0;
  for (const std::vector<TaskBlock>& worker : folded.workers) {
    Nanoseconds last = 0;
    for (const TaskBlock& block : worker) {
      EXPECT_GE(block.begin, last);
      last = block.end;
      tasks += block.tasks;
      if (block.end - block.begin <= folded.resolution) continue;
      EXPECT_EQ(block.tasks, 1);
      EXPECT_EQ(block.item, 17);
      ++long_ones;
    }
    blocks += worker.size();
  }
  EXPECT_EQ(tasks, 10000);
  EXPECT_EQ(long_ones, 2);
  EXPECT_LE(blocks, 200U);
}

}  // namespace
}  // namespace trunkline::report
