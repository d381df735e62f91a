// How long a plan's lists get: known before they are made, and refused beyond 32-bit indices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "plan/emit.hpp"
#include "plan/kv_splitter.hpp"
#include "plan/packs.hpp"
#include "plan/policy_selector.hpp"
#include "plan/test_cases.hpp"
#include "support/policies.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

using ::testing::HasSubstr;

template <class Function>
std::string unsupported(Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "no error";
}

TEST(ListLengths, AreThoseOfThePlan) {
  const Forest forests[] = {testing::star_forest(20'000, 150, 3000), testing::chain_forest(40, 1000),
                            testing::unshared_forest(3, 50'000), testing::star_forest(50'000, 3, 0)};
  const AttentionShape shape = testing::shape_of(8, 2);
  const MachineProfile profile = testing::cpu_like_profile(48);
  bool cuts = false;
  for (const Forest& forest : forests) {
    PolicySelector selector;
    const PlanOptions options;
    selector.reset(forest, shape, profile, options);
    for (const Policy policy : testing::packing_policies()) {
      for (const KvSplit split :
           {KvSplit::kOwn, KvSplit::kBalance, experimental::kSplitMean, experimental::kSplitLong, KvSplit::kNone}) {
        SCOPED_TRACE(concat(&forest - forests, ", ", name_of(policy), ", ", name_of(split)));
        const Proposal& proposal = selector.propose(policy, split);
        const ListLengths lengths = proposal.splitter.lengths();
        Plan plan;
        PlanEmitter().emit(forest, proposal.packs, proposal.splitter, selector.tiles(), plan);
        EXPECT_EQ(lengths.items, static_cast<std::int64_t>(plan.items.size()));
        EXPECT_EQ(lengths.entries, static_cast<std::int64_t>(plan.item_queries.size()));
        EXPECT_EQ(lengths.entries, static_cast<std::int64_t>(plan.item_outputs.size()));
        EXPECT_GE(lengths.entries, plan.partials);
        EXPECT_GE(lengths.spans, static_cast<std::int64_t>(plan.spans.size()));
        EXPECT_GE(lengths.masks, static_cast<std::int64_t>(plan.masks.size()));
        if (policy == Policy::kFlat) {
          EXPECT_EQ(plan.spans.size(), plan.items.size());
        }
        cuts = cuts || lengths.items > static_cast<std::int64_t>(proposal.packs.packs().size());
      }
    }
  }
  EXPECT_TRUE(cuts);
}

TEST(ListLengths, WhatIndicesDoNotReachIsRefusedWithItsNumbers) {
  EXPECT_NO_THROW(check_list_lengths({70'000, kMaxListLength, kMaxListLength}));
  EXPECT_EQ(unsupported([] {
              check_list_lengths({19'000'000, 2'450'035'000, 3});
            }),
            "the plan would have 19000000 items with 2450035000 queries and up to 3 spans and 0 masks; supported "
            "are up to 2147483647 of each");
  EXPECT_THAT(unsupported([] { check_list_lengths({1, 1, kMaxListLength + 1}); }), HasSubstr("2147483648 spans"));
}

TEST(ListLengths, PacksCheckTheirIndices) {
  EXPECT_EQ(end_index("segments", 2'147'483'647), 2'147'483'647);
  EXPECT_THAT(unsupported([] { end_index("segments", 2'147'483'648); }),
              HasSubstr("2147483648 segments; supported are up to 2147483647"));
}

TEST(ListLengths, AutoPassesOverCandidatesThatAreTooLong) {
  const Forest forest = testing::star_forest(20'000, 30, 200);
  PolicySelector selector;
  const AttentionShape shape = testing::shape_of(32, 8);
  const MachineProfile profile = testing::cpu_like_profile(4);
  const PlanOptions options;
  selector.reset(forest, shape, profile, options);
  ASSERT_NE(selector.choose(), Policy::kFlat);
  std::int64_t shortest = kMaxListLength;
  for (const Policy policy : auto_candidates(profile.device)) {
    if (policy != Policy::kFlat) shortest = std::min(shortest, selector.estimate(policy).entries);
  }
  EXPECT_NE(selector.choose(shortest), Policy::kFlat);
  EXPECT_EQ(selector.choose(shortest - 1), Policy::kFlat);
  EXPECT_EQ(selector.choose(1), Policy::kFlat);  // too long itself, and all that is left
}

// The formulas of PlanCapacity: 300 queries of one request and 5 of another, at most 128 or 32 an item.
TEST(ListLengths, FlatNeedsWhatPlanCapacitySays) {
  Forest forest = testing::unshared_forest(3, 1000);
  forest.requests[0].queries = 300;
  forest.requests[1].query_begin = 300;
  forest.requests[1].queries = 5;
  forest.requests[2].query_begin = 305;
  for (const auto& [q_heads, items] : {std::pair{8, 3 + 1 + 1}, std::pair{32, 10 + 1 + 1}}) {
    PlanOptions options;
    options.policy = Policy::kFlat;
    options.split = KvSplit::kNone;
    options.capacity = {306, items, items, 1};
    const Plan plan = make_plan(forest, testing::shape_of(q_heads, 8), testing::cpu_like_profile(4), options);
    EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
    EXPECT_EQ(plan.statistics.fallbacks, 0);
    EXPECT_EQ(plan.items.size(), static_cast<std::size_t>(items));
    EXPECT_EQ(plan.spans.size(), static_cast<std::size_t>(items));
    EXPECT_EQ(plan.partials, 0);
  }
}

}  // namespace
}  // namespace trunkline
