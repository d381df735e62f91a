#include "report/plan_page.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "plan/test_cases.hpp"
#include "support/policies.hpp"

namespace trunkline::report {
namespace {

using Json = nlohmann::json;

std::vector<Plan> plans_of(const Forest& forest, const MachineProfile& profile) {
  std::vector<Plan> plans;
  for (const Policy policy : testing::packing_policies()) {
    plans.push_back(make_plan(forest, testing::shape_of(8, 2), profile, testing::options_of(policy, KvSplit::kOwn)));
  }
  return plans;
}

PlanPage page_of(const Forest& forest, const MachineProfile& profile, const std::vector<Plan>& plans) {
  return {"title", "source", "1", "abc", forest, profile, {}, plans, Policy::kNode, false, {}};
}

TEST(PlanPage, DrawsTheLargestNodesOfAHugeForest) {
  const auto leaves = static_cast<std::int32_t>(kDrawnNodes) + 5;
  const Forest forest = testing::star_forest(40, leaves, 3);
  const MachineProfile profile = testing::cpu_like_profile(2);
  const std::vector<Plan> plans = plans_of(forest, profile);
  const PlanPage page = page_of(forest, profile, plans);
  const Json drawn = Json::parse(plan_page_json(page)).at("forest");
  EXPECT_EQ(drawn.at("nodes"), leaves + 1);
  EXPECT_EQ(drawn.at("drawn").size(), kDrawnNodes);
  EXPECT_EQ(drawn.at("drawn")[0], Json({0, -1, 0, 40, 0, leaves, 0}));
  EXPECT_EQ(drawn.at("not_drawn").at("nodes"), 6);
  EXPECT_EQ(drawn.at("not_drawn").at("tokens"), 6 * 3);
}

TEST(PlanPage, HasARecordedRunWithItsPolicyAlone) {
  const Forest forest = testing::star_forest(64, 4, 16);
  const MachineProfile profile = testing::cpu_like_profile(3);
  const std::vector<Plan> plans = plans_of(forest, profile);
  PlanPage page = page_of(forest, profile, plans);
  page.measured = MeasuredRun{"run.json", Policy::kFlat, {{9, 0, 100, 400}, {9, 1, 400, 500}, {7, 2, 0, 500}}};
  const Json json = Json::parse(plan_page_json(page));
  for (const Json& policy : json.at("policies")) {
    ASSERT_EQ(policy.contains("measured"), policy.at("name") == "flat");
    if (!policy.contains("measured")) continue;
    const Json& measured = policy.at("measured");
    EXPECT_EQ(measured.at("source"), "run.json");
    EXPECT_EQ(measured.at("workers"), Json::parse("[[0,500,1,2,1], [100,300,1,0,1,400,100,1,1,1], []]"));
    EXPECT_DOUBLE_EQ(measured.at("bubble_share"), 1 - 900.0 / 1500);
  }
}

TEST(PlanPage, SaysWhatWasPlannedAndForWhat) {
  const Forest forest = testing::star_forest(64, 4, 16);
  const MachineProfile profile = testing::cpu_like_profile(3);
  const std::vector<Plan> plans = plans_of(forest, profile);
  const Json json = Json::parse(plan_page_json(page_of(forest, profile, plans)));
  EXPECT_EQ(json.at("kind"), "plan");
  EXPECT_EQ(json.at("machine").at("workers"), 3);
  EXPECT_EQ(json.at("shape").at("kv_heads"), 2);
  EXPECT_EQ(json.at("policies").size(), testing::packing_policies().size());
  EXPECT_EQ(json.at("chosen"), "node");
}

}  // namespace
}  // namespace trunkline::report
