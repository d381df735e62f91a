#include "cli/trace_file.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "cli/task_trace.hpp"
#include "support/expect_error.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

/// Two requests that share 64 tokens, and their plans by `node` and `flat`.
class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() {
    const std::vector<std::int32_t> parent = {-1, 0, 0};
    const std::vector<std::int32_t> tokens = {64, 10, 20};
    const std::vector<std::int32_t> end_node = {1, 2};
    forest_ = build_forest(ExplicitTree{parent, tokens, end_node});
    for (const Policy policy : {Policy::kFlat, Policy::kNode}) {
      PlanOptions options;
      options.policy = policy;
      options.split = KvSplit::kNone;
      plans_.push_back(make_plan(forest_, AttentionShape::uniform(8, 2, 128, 16), generic_cpu_profile(2), options));
    }
  }

  /// Every task of a plan, one after another on two workers of which each runs on an SM.
  static std::vector<experimental::CudaTaskTime> tasks_of(const Plan& plan) {
    std::vector<experimental::CudaTaskTime> tasks;
    for (std::int32_t item = 0; item < static_cast<std::int32_t>(plan.items.size()); ++item) {
      for (std::int32_t head = 0; head < plan.shape.kv_heads; ++head) {
        const auto begin = static_cast<std::uint64_t>(1000 + 100 * item);
        tasks.push_back({begin, begin + 64, item, head, 5 + head, 40 + head});
      }
    }
    return tasks;
  }

  /// A trace of two batches, of which the second is the plan's.
  std::string trace_of(const Plan& plan) const {
    const std::vector<std::int32_t> lengths = {74, 84};
    const std::vector<experimental::CudaTaskTime> tasks = tasks_of(plan);
    std::ostringstream out;
    ChromeTrace trace(out);
    trace.add({"demo:1", plans_[0], lengths, false, std::span(tasks).first(1)});
    trace.add({"tree:1,2/64, SM 9", plan, lengths, false, tasks});
    trace.finish();
    return out.str();
  }

  Forest forest_;
  std::vector<Plan> plans_;
};

TEST_F(TraceFileTest, WhatWasRecordedIsReadBackAndFindsItsPlan) {
  for (const Plan& plan : plans_) {
    const std::vector<TracedTask> tasks = parse_task_trace(trace_of(plan), "t.json", "tree:1,2/64, SM 9");
    const std::vector<experimental::CudaTaskTime> recorded = tasks_of(plan);
    ASSERT_EQ(tasks.size(), recorded.size());
    const report::MeasuredRun run = match_trace(tasks, "t.json", forest_, plans_, Policy::kNode);
    EXPECT_EQ(run.policy, plan.policy);
    EXPECT_EQ(run.source, "t.json");
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      EXPECT_EQ(run.tasks[i].item, recorded[i].item);
      EXPECT_EQ(run.tasks[i].worker, recorded[i].worker);
      EXPECT_EQ(run.tasks[i].begin, static_cast<Nanoseconds>(recorded[i].begin_ns - 1000));
      EXPECT_EQ(run.tasks[i].end, static_cast<Nanoseconds>(recorded[i].end_ns - 1000));
    }
  }
}

TEST_F(TraceFileTest, ARunOfOtherTasksIsRefused) {
  std::vector<TracedTask> tasks = parse_task_trace(trace_of(plans_[1]), "t.json", "tree:1,2/64, SM 9");
  tasks.pop_back();
  testing::expect_error(ErrorCode::kInvalidArgument, "it has 5 tasks of the batch; the plan has 6",
                        [&] { match_trace(tasks, "t.json", forest_, plans_, Policy::kNode); });
  tasks.back().tokens = 11;
  testing::expect_error(ErrorCode::kInvalidArgument, "11 tokens",
                        [&] { match_trace(tasks, "t.json", forest_, plans_, Policy::kNode); });
  testing::expect_error(ErrorCode::kInvalidArgument, "it has 0 tasks of the batch",
                        [&] { match_trace({}, "t.json", forest_, plans_, Policy::kNode); });
}

TEST(TraceFile, NamesWhatIsWrong) {
  const auto refused = [](const std::string& text, const std::string& message) {
    testing::expect_error(ErrorCode::kParse, message, [&] { parse_task_trace(text, "t.json", "demo:1"); });
  };
  const std::string head =
      R"({"traceEvents":[{"name":"process_name","ph":"M","pid":3,"args":{"name":"demo:1, SM 3"}},)";
  refused("{", "t.json");
  refused(head + std::string("\n\0]}", 4), "t.json: not JSON at line 2, column 1: a NUL byte");
  refused("[]", "t.json: has no array \"traceEvents\"");
  refused(R"({"traceEvents":[]})", "t.json: has no batch \"demo:1\"; it has none");
  refused(R"({"traceEvents":[{"name":"process_name","ph":"M","pid":3,"args":{"name":"demo"}}]})",
          "traceEvents[0].args.name is \"demo\"");
  refused(R"({"traceEvents":[{"name":"process_name","ph":"M","pid":-3}]})", "traceEvents[0].pid is -3");
  refused(head + "7]}", "traceEvents[1] is 7");
  refused(head + R"({"ph":"X","pid":3,"name":"item 1 head -1"}]})", "traceEvents[1].name");
  refused(head + R"({"ph":"X","pid":3,"name":"item 1 head 1","tid":4,"ts":1e300}]})", "traceEvents[1].ts is 1e+300");
  refused(head + R"({"ph":"X","pid":3,"name":"item 1 head 1","tid":4,"ts":1,"dur":1,"args":[]}]})",
          "traceEvents[1].args.rows is null");
}

}  // namespace
}  // namespace trunkline::cli
