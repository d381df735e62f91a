#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "plan/test_cases.hpp"
#include "support/policies.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using nlohmann::json;

TEST(PlanJson, HoldsThePlan) {
  const Plan plan = make_plan(testing::star_forest(640, 2, 0), testing::shape_of(32, 8),
                              testing::memory_only_profile(1), testing::options_of(Policy::kNode, KvSplit::kNone));
  const json parsed = json::parse(plan_to_json(plan));
  EXPECT_EQ(parsed["policy"], "node");
  EXPECT_EQ(parsed["shape"],
            json::parse(R"({"q_heads":32,"kv_heads":8,"head_dim_qk":128,"head_dim_v":128,"page_size":16,)"
                        R"("q_dtype":"f16","kv_dtype":"f16","device":"cpu"})"));
  EXPECT_EQ(parsed["queries"][1], json::parse(R"({"slot":1,"generation":0,"token":0,"from_end":0,"parent":-1})"));
  ASSERT_EQ(parsed["items"].size(), 1u);
  const json& item = parsed["items"][0];
  EXPECT_EQ(item["queries"], json::parse("[0,1]"));
  EXPECT_EQ(item["outputs"], json::parse("[-1,-1]"));
  EXPECT_EQ(item["tile"], json::parse(R"({"m":16,"n":32})"));
  ASSERT_EQ(item["spans"].size(), 3u);
  EXPECT_EQ(item["spans"][2], json::parse(R"({"slot":1,"generation":0,"begin":640,"end":0,"mask":1,
                                              "begin_from_end":false,"end_from_end":true,"token_mask":false,"both_halves":false})"));
  EXPECT_EQ(parsed["masks"], json::parse("[[1,0],[2,0]]"));
  EXPECT_EQ(parsed["merges"], json::array());
  EXPECT_EQ(parsed["schedule"], json::parse("[0]"));
  EXPECT_EQ(parsed["statistics"], json::parse(statistics_to_json(plan.statistics)));
}

TEST(PlanJson, MergesNameQueryAndSlots) {
  const Plan plan = make_plan(testing::star_forest(640, 2, 8), testing::shape_of(32, 8),
                              testing::memory_only_profile(1), testing::options_of(Policy::kNode, KvSplit::kNone));
  EXPECT_EQ(json::parse(plan_to_json(plan))["merges"],
            json::parse(R"([{"query":0,"slots":[0,1]},{"query":1,"slots":[2,3]}])"));
}

TEST(PlanJson, StatisticsKeepTheirNames) {
  PlanStatistics statistics;
  statistics.kv_tokens_read = 12;
  statistics.predicted_us = 1.5;
  const json parsed = json::parse(statistics_to_json(statistics));
  EXPECT_EQ(parsed["kv_tokens_read"], 12);
  EXPECT_EQ(parsed["predicted_us"], 1.5);
  for (const char* key :
       {"kv_tokens_total", "kv_tokens_distinct", "kv_bytes_distinct", "kv_bytes_read", "kv_bytes_reread", "qo_bytes",
        "partials", "partial_bytes", "flops", "flops_padded", "bound_us", "fallbacks"}) {
    EXPECT_EQ(parsed[key], 0) << key;
  }
}

}  // namespace
}  // namespace trunkline
