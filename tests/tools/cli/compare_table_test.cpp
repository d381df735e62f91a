#include "cli/compare_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace trunkline::cli {
namespace {

using testing::DoubleEq;
using testing::HasSubstr;

ComparedPlan plan(Policy policy, std::int64_t tokens_read, double predicted_us) {
  ComparedPlan result;
  result.policy = policy;
  PlanStatistics& statistics = result.statistics;
  statistics.kv_tokens_total = 800;
  statistics.kv_tokens_distinct = 100;
  statistics.kv_tokens_read = tokens_read;
  statistics.kv_tokens_grouped = 100;
  statistics.kv_bytes_distinct = 1000;
  statistics.kv_bytes_read = 10 * tokens_read;
  statistics.partial_bytes = 500;
  statistics.predicted_us = predicted_us;
  statistics.bound_us = 10;
  result.plan_us = 4;
  return result;
}

ComparedBatch batch(double flat_us, double node_us, double picked_us) {
  ComparedBatch result{"suite", "1", "", 8, {}, {}};
  result.plans = {plan(Policy::kFlat, 800, flat_us), plan(Policy::kNode, 200, node_us)};
  result.picked = plan(Policy::kNode, 200, picked_us);
  return result;
}

TEST(ComparedPlan, CountsInMultiplesOfTheLeast) {
  const ComparedPlan node = plan(Policy::kNode, 200, 25);
  EXPECT_THAT(node.x_distinct(), DoubleEq(2));
  EXPECT_THAT(node.x_grouped(), DoubleEq(1));
  EXPECT_THAT(node.x_traffic(), DoubleEq(2.5));  // 2000 bytes of KV and 500 of partials over 1000
  EXPECT_THAT(node.x_bound(), DoubleEq(2.5));
  EXPECT_THAT(ComparedPlan{}.x_distinct(), DoubleEq(1));  // nothing to read
}

TEST(ComparedBatch, RegretIsAgainstTheLeastPredictedTime) {
  EXPECT_EQ(batch(20, 30, 30).best().policy, Policy::kFlat);
  EXPECT_THAT(batch(20, 30, 30).regret(), DoubleEq(1.5));
  EXPECT_THAT(batch(40, 30, 30).regret(), DoubleEq(1));
}

TEST(CompareMeans, AreGeometric) {
  const ComparedPlan one = plan(Policy::kFlat, 200, 20);
  const ComparedPlan two = plan(Policy::kFlat, 800, 80);
  const CompareMeans mean = mean_of({&one, &two});
  EXPECT_DOUBLE_EQ(mean.x_distinct, 4);  // of 2 and 8
  EXPECT_DOUBLE_EQ(mean.x_bound, 4);
  EXPECT_DOUBLE_EQ(mean.plan_us, 4);
}

TEST(CompareTable, ShowsMeansAndRegret) {
  std::ostringstream out;
  print_means(out, {batch(20, 30, 30), batch(40, 30, 30)});
  EXPECT_THAT(out.str(), HasSubstr("Geometric means over 2 batches"));
  EXPECT_THAT(out.str(), HasSubstr("auto's regret: 1.225, at most 1.500 (suite:1)"));  // sqrt(1.5)
}

TEST(CompareTable, JsonHasTheStatisticsByPolicy) {
  Options options;
  const auto row = nlohmann::json::parse(compared_to_json(options, "machine", batch(20, 30, 30)));
  EXPECT_EQ(row["policies"]["node"]["kv_tokens_read"], 200);
  EXPECT_EQ(row["auto"]["chosen"], "node");
  EXPECT_EQ(row["auto"]["best"], "flat");
  EXPECT_EQ(row["auto"]["regret"], 1.5);
  EXPECT_EQ(row["machine"], "machine");
}

}  // namespace
}  // namespace trunkline::cli
