#include "replay/replay_page.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trunkline::replay {
namespace {

ReplayStep step_of(int i) {
  ReplayStep step;
  step.time_s = i;
  step.requests = 2;
  step.kv_tokens_total = 100 + i;
  step.kv_tokens_distinct = 50;
  step.kept = i % 3 != 0;
  step.exposed_us = i % 100;
  step.predicted_us = {1.0 * i, 2};
  step.kv_bytes = {3, 4.0 * i};
  return step;
}

TEST(ReplayPage, BinsHoldAllStepsHoweverMany) {
  for (const int steps : {0, 1, 7, 799, 800, 801, 5000, 123457}) {
    SCOPED_TRACE(steps);
    ReplayPage page;
    page.policies = {"a", "b"};
    for (int i = 1; i <= steps; ++i) page.add(step_of(i));
    EXPECT_LE(page.bins.size(), 2 * kDrawnBins);
    std::int64_t next = 1;
    std::int64_t replans = 0;
    double predicted = 0;
    for (const ReplayBin& bin : page.bins) {
      EXPECT_EQ(bin.first_step, next);
      EXPECT_EQ(bin.begin_s, static_cast<double>(next)) << "step i began at i seconds";
      next += bin.steps;
      replans += bin.replans;
      predicted += bin.sum.predicted_us[0];
      EXPECT_LE(bin.least_sharing, bin.most_sharing);
    }
    EXPECT_EQ(next, steps + 1);
    EXPECT_EQ(replans, steps / 3);
    EXPECT_EQ(predicted, 0.5 * steps * (steps + 1.0));
    const nlohmann::json data = nlohmann::json::parse(replay_page_json(page));
    EXPECT_EQ(data["bins"].size(), page.bins.size());
  }
}

TEST(ReplayPage, ValuesAreMeansOfAStep) {
  ReplayPage page;
  for (int i = 1; i <= 801; ++i) page.add(step_of(i));
  const nlohmann::json bin = nlohmann::json::parse(replay_page_json(page))["bins"][0];
  EXPECT_EQ(bin["steps"], 2);
  EXPECT_EQ(bin["requests"], 2);
  EXPECT_EQ(bin["total"], 101.5);
  EXPECT_EQ(bin["predicted_us"][0], 1.5);
  EXPECT_EQ(bin["kv_bytes"][1], 6);
  EXPECT_EQ(bin["most_exposed_us"], 2);
  EXPECT_EQ(bin["most_sharing"], 102.0 / 50);
}

}  // namespace
}  // namespace trunkline::replay
