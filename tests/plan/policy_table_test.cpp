// Whatever names a policy agrees with the table.
#include "plan/policies/policy_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "plan/policy_selector.hpp"
#include "plan/test_cases.hpp"
#include "support/expect_error.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;

TEST(PolicyTable, NamesLeadBackToTheirPolicies) {
  for (const PolicyInfo& info : policy_table()) {
    SCOPED_TRACE(info.name);
    EXPECT_EQ(policy_from_name(info.name), info.policy);
    EXPECT_STREQ(name_of(info.policy), info.name);
    EXPECT_EQ(&policy_info(info.policy), &info);
  }
  EXPECT_EQ(policy_from_name("auto"), Policy::kAuto);
  EXPECT_STREQ(name_of(Policy::kAuto), "auto");
}

TEST(PolicyTable, OtherNamesAndNumbersAreRefused) {
  expect_error(ErrorCode::kInvalidArgument, "policy is 'flatt'; known are flat, cascade, ",
               [] { policy_from_name("flatt"); });
  const auto past_last = static_cast<Policy>(policy_table().size() + 1);
  const std::string last = std::to_string(policy_table().size());
  expect_error(ErrorCode::kInvalidArgument, "known are 0 to " + last, [&] { check_policy(past_last); });
  expect_error(ErrorCode::kInvalidArgument, "known are 0 to " + last, [&] { policy_info(past_last); });
  expect_error(ErrorCode::kInternal, "policy auto has no row", [] { policy_info(Policy::kAuto); });
}

TEST(PolicyTable, AutoChoosesAmongRowsWithEstimates) {
  EXPECT_THAT(auto_candidates(Device::kCpu), ElementsAre(Policy::kFlat, Policy::kNode, Policy::kProfit));
  EXPECT_THAT(auto_candidates(Device::kCuda),
              ElementsAre(Policy::kFlat, Policy::kNode, Policy::kProfit, Policy::kTrunk));
}

// A policy without an estimate had that of `flat`.
TEST(PolicyTable, NoPolicyHasTheEstimateOfAnother) {
  const Forest forest = testing::star_forest(1000, 8, 20);
  const AttentionShape shape = testing::shape_of(32, 8);
  const MachineProfile profile = testing::cpu_like_profile(4);
  const PlanOptions options;
  PolicySelector selector;
  selector.reset(forest, shape, profile, options);
  for (const PolicyInfo& info : policy_table()) {
    if (info.estimate != nullptr) continue;
    expect_error(ErrorCode::kInternal, std::string("policy ") + info.name + " has no estimate",
                 [&] { selector.estimate(info.policy); });
  }
}

}  // namespace
}  // namespace trunkline
