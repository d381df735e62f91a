#include "cli/task_trace.hpp"
#include "trunkline/experimental.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace trunkline::cli {
namespace {

using Json = nlohmann::json;

/// Two items: three queries over 100 tokens, and one over 20 tokens and an open end.
Plan two_items() {
  Plan plan;
  plan.shape = AttentionShape::uniform(8, 2, 128, 16, DType::kF16, Device::kCuda);
  plan.items = {{{0, 3}, {0, 1}, {16, 64}, 0}, {{3, 4}, {1, 3}, {64, 64}, 0}};
  plan.spans = {
      {0, 0, 0, 100, -1, kSpanAbsolute}, {0, 0, 100, 120, -1, kSpanAbsolute}, {1, 0, 100, 0, -1, kSpanEndFromEnd}};
  plan.schedule = {1, 0};
  return plan;
}
const std::vector<std::int32_t> kLengths = {120, 107};

experimental::CudaTaskTime task(std::uint64_t begin_ns, std::uint64_t end_ns, std::int32_t item, std::int32_t head,
                                std::int32_t sm, std::int32_t worker) {
  return {begin_ns, end_ns, item, head, sm, worker};
}

Json trace_of(const std::vector<TracedRun>& runs) {
  std::ostringstream out;
  ChromeTrace trace(out);
  for (const TracedRun& run : runs) trace.add(run);
  trace.finish();
  return Json::parse(out.str()).at("traceEvents");
}

double bubbles(const std::vector<experimental::CudaTaskTime>& tasks, std::int32_t workers,
               bool launch_per_tile = false) {
  const Plan plan = two_items();
  return bubble_share({"demo", plan, kLengths, launch_per_tile, tasks}, workers);
}

TEST(BubbleShare, IsTheTimeWithoutATask) {
  // Worker 0 works from 1,000 to 1,100 and worker 1 from 1,050 to 1,150, with one break of 20.
  const std::vector<experimental::CudaTaskTime> tasks = {task(1000, 1100, 0, 0, 0, 0), task(1050, 1080, 0, 1, 1, 1),
                                                         task(1100, 1150, 1, 0, 1, 1)};
  EXPECT_DOUBLE_EQ(bubbles(tasks, 2), 1 - 180.0 / 300);
  EXPECT_DOUBLE_EQ(bubbles(tasks, 3), 1 - 180.0 / 450) << "a worker without a task is idle";
}

TEST(BubbleShare, IsNothingWhereAllWorkersAreBusyOrNothingRan) {
  EXPECT_DOUBLE_EQ(bubbles(std::vector{task(7, 9, 0, 0, 0, 0), task(7, 9, 0, 1, 1, 1)}, 2), 0);
  EXPECT_DOUBLE_EQ(bubbles({}, 132), 0);
  EXPECT_DOUBLE_EQ(bubbles(std::vector{task(7, 7, 0, 0, 0, 0)}, 1), 0) << "the clock did not step";
}

TEST(BubbleShare, CountsCopiesAheadOnce) {
  // The second task's first copy begins 40 before the first task has ended.
  const std::vector<experimental::CudaTaskTime> tasks = {task(1060, 1200, 0, 1, 0, 0), task(1000, 1100, 0, 0, 0, 0)};
  EXPECT_DOUBLE_EQ(bubbles(tasks, 1), 0);
  EXPECT_DOUBLE_EQ(bubbles(tasks, 2), 0.5);
  const std::vector<experimental::CudaTaskTime> at_once = {task(1000, 1100, 0, 0, 0, 0), task(1000, 1100, 1, 0, 0, 0)};
  EXPECT_DOUBLE_EQ(bubbles(at_once, 2, true), 0) << "worker 0 of two launches";
}

TEST(ChromeTrace, HasAnEventForEachTaskAndANameForEachSm) {
  const Plan plan = two_items();
  // A clock of the device is far from zero, and its difference must not be rounded.
  constexpr std::uint64_t kStart = 1'700'000'000'000'000'000;
  const std::vector<experimental::CudaTaskTime> tasks = {task(kStart + 32, kStart + 2080, 1, 1, 5, 40),
                                                         task(kStart, kStart + 64, 0, 0, 7, 41)};
  const Json events = trace_of({{"demo:1", plan, kLengths, false, tasks}});
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0],
            Json::parse(R"({"name": "process_name", "ph": "M", "pid": 5, "args": {"name": "demo:1, SM 5"}})"));
  EXPECT_EQ(events[3], Json::parse(R"({"name": "item 1 head 1", "ph": "X", "pid": 5, "tid": 40, "ts": 0.032,
      "dur": 2.048, "args": {"rows": 4, "tokens": 27, "tile": "64x64"}})"));
  EXPECT_EQ(events[2], Json::parse(R"({"name": "item 0 head 0", "ph": "X", "pid": 7, "tid": 41, "ts": 0.0,
      "dur": 0.064, "args": {"rows": 12, "tokens": 100, "tile": "16x64"}})"));
}

TEST(ChromeTrace, KeepsBatchesAndLaunchesApart) {
  const Plan plan = two_items();
  const std::vector<experimental::CudaTaskTime> tasks = {task(0, 1, 0, 0, 3, 9), task(0, 1, 1, 0, 3, 9)};
  const Json events = trace_of({{"a", plan, kLengths, false, tasks}, {"b", plan, kLengths, true, tasks}});
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[1]["tid"], events[2]["tid"]) << "one launch: one worker";
  EXPECT_NE(events[4]["tid"], events[5]["tid"]) << "a launch for each tile: two workers";
  EXPECT_NE(events[1]["pid"], events[4]["pid"]);
}

TEST(ChromeTrace, WithoutTasksIsStillATrace) {
  EXPECT_EQ(trace_of({}), Json::array());
  const Plan plan = two_items();
  EXPECT_EQ(trace_of({{"a", plan, kLengths, false, {}}}), Json::array());
}

}  // namespace
}  // namespace trunkline::cli
