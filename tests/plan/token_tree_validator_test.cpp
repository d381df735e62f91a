// The validator finds faults of a plan for a draft tree, at the present length or at a later one.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/test_cases.hpp"
#include "support/policies.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

/// One request of 100 tokens, the last 3 of them query tokens: a root with two children.
Forest draft_forest() {
  const std::vector<std::int32_t> parent = {-1};
  const std::vector<std::int32_t> tokens = {100};
  const std::vector<std::int32_t> end_node = {0};
  Forest forest = build_forest(ExplicitTree{parent, tokens, end_node});
  forest.requests[0].queries = 3;
  forest.requests[0].tree = true;
  forest.query_parents = {-1, 0, 0};
  return forest;
}

/// The past open-ended up to 3 before the live end; then the drafts, each seen by itself and its descendants.
Plan draft_plan() {
  Plan plan = make_plan(draft_forest(), testing::shape_of(4, 1), testing::cpu_like_profile(1),
                        testing::options_of(Policy::kFlat, KvSplit::kNone));
  plan.spans = {{0, 0, 0, -3, -1, kSpanEndFromEnd},
                {0, 0, -3, 0, 0, kSpanBeginFromEnd | kSpanEndFromEnd | kSpanTokenMask}};
  plan.masks = {QueryMask{{0b111, 0}}, QueryMask{{0b010, 0}}, QueryMask{{0b100, 0}}};
  plan.items[0].spans = {0, 2};
  return plan;
}

void expect_violation(const Plan& plan, const char* message) {
  const auto violation = find_plan_violation(plan, draft_forest());
  ASSERT_TRUE(violation.has_value());
  EXPECT_NE(violation->find(message), std::string::npos) << *violation;
}

TEST(TokenTreeValidator, AcceptsADraftTree) {
  EXPECT_EQ(find_plan_violation(draft_plan(), draft_forest()), std::nullopt);
}

TEST(TokenTreeValidator, MasksMayNotHideOlderTokens) {
  Plan plan = draft_plan();
  plan.spans[0].end = -4;
  plan.spans[1].begin = -4;
  plan.masks.insert(plan.masks.begin(), QueryMask{{0b011, 0}});
  expect_violation(plan, "does not see token 96");
}

TEST(TokenTreeValidator, AQuerySeesItself) {
  Plan plan = draft_plan();
  plan.masks[2] = QueryMask{{0b010, 0}};
  expect_violation(plan, "its own token 99");
}

TEST(TokenTreeValidator, TheMovingWindowMustStartWhereThePastEnds) {
  Plan plan = draft_plan();
  plan.spans[0].end = -2;
  expect_violation(plan, "twice");
  plan.spans[0].end = -4;
  expect_violation(plan, "does not see token 96");
}

// Right at the present length, wrong after growth: the past is closed where the window stands now.
TEST(TokenTreeValidator, AWindowThatLeavesAGapWhenItMovesIsCaught) {
  Plan plan = draft_plan();
  plan.spans = {{0, 0, 0, 97, -1, kSpanAbsolute},
                {0, 0, -3, 0, 0, kSpanBeginFromEnd | kSpanEndFromEnd | kSpanTokenMask},
                {0, 0, 100, 0, -1, kSpanEndFromEnd}};
  plan.items[0].spans = {0, 3};
  expect_violation(plan, "at length 101");
}

// A window may also pass a span that it does not touch now: it stands on token 40 only after 42 tokens of growth.
TEST(TokenTreeValidator, AWindowThatPassesAFixedSpanLaterIsCaught) {
  Plan plan = draft_plan();
  plan.masks = {};
  plan.spans = {{0, 0, 0, 38, -1, kSpanAbsolute},
                {0, 0, -62, -60, -1, kSpanBeginFromEnd | kSpanEndFromEnd},
                {0, 0, 40, 0, -1, kSpanEndFromEnd}};
  plan.items[0].spans = {0, 3};
  expect_violation(plan, "at length 101");
}

TEST(TokenTreeValidator, EveryTokenNeedsItsMask) {
  Plan plan = draft_plan();
  plan.masks.pop_back();
  expect_violation(plan, "needs 3");
}

}  // namespace
}  // namespace trunkline
