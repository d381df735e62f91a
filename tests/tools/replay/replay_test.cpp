#include "replay/replay.hpp"

#include <gtest/gtest.h>

#include "replay/formats/format_table.hpp"
#include "replay/replay_totals.hpp"
#include "support/expect_error.hpp"

namespace trunkline::replay {
namespace {

ReplayOptions options_of(bool async = false) {
  ReplayOptions options;
  options.shape = AttentionShape::uniform(8, 2, 64, 16);
  options.async = async;
  options.validate = true;
  options.policies = {Policy::kFlat, Policy::kNode, Policy::kAuto};
  return options;
}

Trace small_trace() {
  Trace trace;
  trace.recorded = true;
  trace.block_tokens = 16;
  add_single(trace, {0, -1, 64, 40, {{0, 0, 4}}});
  add_single(trace, {0, -1, 64, 40, {{0, 0, 4}}});
  return trace;
}

ReplayTotals walk(const Trace& trace, const ReplayOptions& options) {
  Replay replay(trace, {}, generic_cpu_profile(2), options);
  ReplayTotals totals;
  while (replay.step()) totals.add(replay.record());
  return totals;
}

TEST(Replay, CountsStepsSharingAndPrices) {
  const Trace trace = small_trace();
  Replay replay(trace, {}, generic_cpu_profile(2), options_of());
  ASSERT_TRUE(replay.step());
  const StepRecord& step = replay.record();
  EXPECT_EQ(step.requests, 2);
  EXPECT_EQ(step.kv_tokens_total, 130);
  EXPECT_EQ(step.kv_tokens_distinct, 66);
  EXPECT_EQ(step.nodes, 3);
  EXPECT_DOUBLE_EQ(step.node_tokens_mean, 22);
  EXPECT_NEAR(step.node_tokens_deviation, 29.698, 0.001);
  EXPECT_EQ(step.source, PlanSource::kMembership);
  EXPECT_TRUE(step.priced);
  EXPECT_EQ(step.prices[0].kv_bytes, 130 * 2 * 2 * 64 * 2);
  EXPECT_EQ(step.prices[1].kv_bytes, 66 * 2 * 2 * 64 * 2);
  EXPECT_NEAR(step.step_us, 32 * step.price.predicted_us + 5000, 1e-6);
  EXPECT_EQ(replay.prompt_steps(), 1);
  EXPECT_NEAR(step.time_s, (5000 + 30 * 128) * 1e-6, 1e-9);
  ASSERT_TRUE(replay.step());
  EXPECT_EQ(step.source, PlanSource::kReused);
  EXPECT_FALSE(step.priced);
  EXPECT_EQ(step.kv_tokens_total, 132);
}

TEST(Replay, KeepsPlansBetweenEventsSyncAndAsync) {
  for (const bool async : {false, true}) {
    const ReplayTotals totals = walk(small_trace(), options_of(async));
    EXPECT_EQ(totals.steps, 39);
    EXPECT_EQ(totals.of(PlanSource::kMembership) + totals.late, 1);
    EXPECT_EQ(totals.exposed_us.size(), 39u);
    EXPECT_EQ(totals.hidden_us.empty(), !async);
    EXPECT_GT(totals.kept_share(), 0.9);
  }
}

TEST(Replay, GivenStepTimesAndLimits) {
  ReplayOptions options = options_of();
  options.step_us = 1000;
  options.max_steps = 10;
  const Trace trace = small_trace();
  Replay replay(trace, {}, generic_cpu_profile(2), options);
  while (replay.step()) {
  }
  EXPECT_EQ(replay.record().step, 10);
  EXPECT_NEAR(replay.now_s(), 0.011, 1e-9);
}

TEST(Replay, RealTracesOfEveryFormatPassTheValidator) {
  const std::string data = TRUNKLINE_DATA;
  for (const char* name :
       {"/traces/mooncake_conversation.jsonl", "/traces/mooncake_toolagent.jsonl", "/traces/azure_code.csv",
        "/traces/lmcache_magagent.jsonl", "/traces/weka_sessions.jsonl", "/reasoning/keyword.jsonl"}) {
    SCOPED_TRACE(name);
    const Trace trace = load_trace(data + name, "", 30);
    ReplayOptions options = options_of();
    options.shape.page_size = 32;
    options.scheduler.num_pages = 40000;
    options.max_steps = 1500;
    options.price_every = 64;
    const ReplayTotals totals = walk(trace, options);
    EXPECT_GT(totals.steps, 100);
    EXPECT_GE(totals.sharing_of_all(), 1);
  }
}

TEST(Replay, RefusesOptions) {
  const auto refused = [](const char* words, auto change) {
    ReplayOptions options = options_of();
    change(options);
    testing::expect_error(ErrorCode::kInvalidArgument, words, [&] { walk(small_trace(), options); });
  };
  refused("--layers is 0", [](ReplayOptions& options) { options.layers = 0; });
  refused("--rest-us is -1", [](ReplayOptions& options) { options.rest_us = -1; });
  refused("--step-us is 0", [](ReplayOptions& options) { options.step_us = 0; });
  refused("--price-every is 0", [](ReplayOptions& options) { options.price_every = 0; });
}

TEST(SpreadOf, RanksSamples) {
  std::vector<double> samples;
  for (int i = 1; i <= 200; ++i) samples.push_back(i);
  const Spread spread = spread_of(samples);
  EXPECT_EQ(spread.median, 100);
  EXPECT_EQ(spread.p99, 198);
  EXPECT_EQ(spread.most, 200);
  EXPECT_EQ(spread.mean, 100.5);
  EXPECT_EQ(spread_of({}).most, 0);
}

}  // namespace
}  // namespace trunkline::replay
