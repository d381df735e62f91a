// Plans for draft trees: the past stretches, the drafts lie in a window with a mask for each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "plan/emit.hpp"
#include "plan/plan_oracle.hpp"
#include "plan/policy_selector.hpp"
#include "plan/test_cases.hpp"
#include "support/draft_trees.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using Numbers = std::vector<std::int32_t>;
using ::testing::ElementsAre;
using testing::uniform;

constexpr std::uint32_t kWindow = kSpanBeginFromEnd | kSpanEndFromEnd | kSpanTokenMask;

/// Requests that share nothing, of `past` tokens and a draft tree each.
Forest forest_of(std::int32_t past, const std::vector<Numbers>& drafts) {
  Numbers ids;
  Numbers kv_lens;
  Numbers query_start = {0};
  Numbers parents;
  for (const Numbers& tree : drafts) {
    kv_lens.push_back(past + static_cast<std::int32_t>(tree.size()));
    parents.insert(parents.end(), tree.begin(), tree.end());
    query_start.push_back(static_cast<std::int32_t>(parents.size()));
  }
  Numbers indptr = {0};
  for (const std::int32_t length : kv_lens) {
    for (std::int32_t token = 0; token < length; ++token) ids.push_back(static_cast<std::int32_t>(ids.size()));
    indptr.push_back(static_cast<std::int32_t>(ids.size()));
  }
  Batch batch;
  batch.pages = PageTable::csr(indptr, std::span<const std::int32_t>(ids), 1);
  batch.kv_lens = kv_lens;
  batch.query_start = query_start;
  batch.query_parents = parents;
  batch.num_pages = static_cast<std::int64_t>(ids.size());
  return build_forest(batch, IdCheck::kAllPages);
}

Numbers published(const std::string& name) {
  for (const testing::DraftTree& draft : testing::published_draft_trees()) {
    if (draft.name == name) return draft.parents;
  }
  return {};
}

Plan flat_plan(const Forest& forest, std::int32_t group, KvSplit split) {
  return make_plan(forest, testing::shape_of(group * 2, 2), testing::cpu_like_profile(4),
                   testing::options_of(Policy::kFlat, split));
}

Numbers star(std::int32_t drafts) {
  Numbers parents(static_cast<std::size_t>(drafts), 0);
  parents[0] = -1;
  return parents;
}

TEST(TokenTreePlan, ThePastStretchesAndTheWindowFollows) {
  const Plan plan = flat_plan(forest_of(97, {{-1, 0, 0}}), 4, KvSplit::kNone);
  EXPECT_THAT(plan.spans, ElementsAre(KvSpan{0, 0, 0, -3, -1, kSpanEndFromEnd}, KvSpan{0, 0, -3, 0, 0, kWindow}));
  EXPECT_THAT(plan.masks, ElementsAre(QueryMask{{0b111, 0}}, QueryMask{{0b010, 0}}, QueryMask{{0b100, 0}}));
  EXPECT_EQ(plan.queries[2], (Query{0, 0, 2, 0, 0}));
  // 4 d FLOPs for each of 8 query heads and 97 + 1, 97 + 2 and 97 + 2 tokens.
  EXPECT_EQ(plan.statistics.flops, 4.0 * 128 * 8 * (98 + 99 + 99));
}

TEST(TokenTreePlan, ChainsAreOrdinaryRows) {
  const Forest forest = forest_of(10, {{-1, 0, 1, 2}});
  EXPECT_TRUE(forest.query_parents.empty());
  const Plan plan = flat_plan(forest, 4, KvSplit::kNone);
  EXPECT_THAT(plan.spans, ElementsAre(KvSpan{0, 0, 0, 0, -1, kSpanEndFromEnd}));
  EXPECT_EQ(plan.queries[2].parent, 1);
}

/// The plan of one request's segments, all in one pack of `parts` parts, at its lengths and at later ones.
Plan plan_of_segments(std::int32_t past, std::int32_t drafts, std::int32_t parts,
                      const std::vector<PackSegment>& segments) {
  const Forest forest = forest_of(past, {star(drafts)});
  const AttentionShape shape = testing::shape_of(1, 1);
  const MachineProfile profile = testing::cpu_like_profile(4);
  const PlanOptions options;
  PolicySelector selector;
  selector.reset(forest, shape, profile, options);
  QueryOrder order;
  order.reset(forest);
  Packs packs;
  packs.reset(order, selector.tiles());
  packs.cut(parts);
  packs.add_queries({0, order.size()});
  for (const PackSegment& segment : segments) packs.add_segment(segment);
  packs.close();
  KvSplitter splitter;
  splitter.divide(packs, selector.propose(Policy::kFlat, KvSplit::kNone).costs, KvSplit::kOwn);
  Plan plan;
  plan.shape = shape;
  PlanEmitter().emit(forest, packs, splitter, selector.tiles(), plan);
  for (std::size_t item = 0; item < plan.items.size(); ++item) plan.schedule.push_back(static_cast<std::int32_t>(item));
  EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
  for (const std::int32_t growth : {0, 1, 7, 200}) {
    EXPECT_EQ(testing::play_plan(plan, forest, {growth}), std::nullopt) << growth;
  }
  EXPECT_GE(splitter.lengths().spans, static_cast<std::int64_t>(plan.spans.size()));
  EXPECT_GE(splitter.lengths().masks, static_cast<std::int64_t>(plan.masks.size()));
  return plan;
}

Plan cut_plan(std::int32_t past, std::int32_t drafts, std::int32_t parts) {
  return plan_of_segments(past, drafts, parts, {{0, 0, past + drafts, kAllReaders, true}});
}

// Cuts are at multiples of 64 tokens.
TEST(TokenTreePlan, CutsFallIntoThePastOrIntoTheWindow) {
  EXPECT_THAT(cut_plan(270, 30, 4).spans,
              ElementsAre(KvSpan{0, 0, 0, 64}, KvSpan{0, 0, 64, 128}, KvSpan{0, 0, 128, 192},
                          KvSpan{0, 0, 192, -30, -1, kSpanEndFromEnd}, KvSpan{0, 0, -30, 0, 0, kWindow}));
  EXPECT_THAT(cut_plan(100, 128, 3).spans,
              ElementsAre(KvSpan{0, 0, 0, 64}, KvSpan{0, 0, 64, -128, -1, kSpanEndFromEnd},
                          KvSpan{0, 0, -128, -100, 0, kWindow}, KvSpan{0, 0, -100, 0, 28, kWindow}));
  // Just where the drafts begin.
  EXPECT_THAT(cut_plan(128, 100, 3).spans, ElementsAre(KvSpan{0, 0, 0, 64}, KvSpan{0, 0, 64, -100, -1, kSpanEndFromEnd},
                                                       KvSpan{0, 0, -100, 0, 0, kWindow}));
}

TEST(TokenTreePlan, WithoutAPastAnEmptySpanStretches) {
  const std::vector<KvSpan> spans = {{0, 0, 0, -120, -1, kSpanEndFromEnd}, {0, 0, -120, 0, 0, kWindow}};
  EXPECT_EQ(cut_plan(0, 120, 1).spans, spans);
  // Fewer whole granules than parts: the first part has no token.
  EXPECT_EQ(cut_plan(0, 120, 2).spans, spans);
}

// A policy that cuts nodes into blocks does not look where the drafts begin.
TEST(TokenTreePlan, DraftsAreTheOpenEndedSegmentsWhereverItBegins) {
  const std::vector<KvSpan> spans = {
      {0, 0, 0, 64}, {0, 0, 64, 100}, {0, 0, 100, -60, -1, kSpanEndFromEnd}, {0, 0, -60, 0, 0, kWindow}};
  EXPECT_EQ(plan_of_segments(100, 60, 1, {{0, 0, 64}, {0, 64, 128}, {0, 128, 160, kAllReaders, true}}).spans, spans);
  EXPECT_EQ(plan_of_segments(100, 60, 1, {{0, 0, 64}, {0, 64, 160}, {0, 160, 160, kAllReaders, true}}).spans, spans);
  EXPECT_EQ(plan_of_segments(100, 60, 2, {{0, 0, 64}, {0, 64, 128}, {0, 128, 160, kAllReaders, true}}).spans, spans);
}

// 256 drafts of 8 rows: 16 items of 16 queries. Drafts after an item's last query are none's ancestors.
TEST(TokenTreePlan, WideTreesAreSpreadAndEqualOnesShareMasks) {
  const Numbers drafts = published("t256");
  const Plan one = flat_plan(forest_of(500, {drafts}), 8, KvSplit::kNone);
  ASSERT_EQ(one.items.size(), 16u);
  for (std::int32_t item = 0; item < 16; ++item) {
    const Range spans = one.items[static_cast<std::size_t>(item)].spans;
    ASSERT_EQ(spans.size(), 2);
    EXPECT_EQ(one.spans[static_cast<std::size_t>(spans.end) - 1].end, -(256 - 16 * (item + 1)));
  }
  EXPECT_EQ(one.masks.size(), 16u * 17 / 2 * 16);
  const Plan many = flat_plan(forest_of(500, {drafts, drafts, star(40), drafts}), 8, KvSplit::kNone);
  EXPECT_EQ(many.masks.size(), one.masks.size() + (16 + 32 + 40)) << "four requests, two trees";
}

TEST(TokenTreePlan, ListLengthsAndCapacitiesHoldForEveryTopology) {
  for (const testing::DraftTree& draft : testing::published_draft_trees()) {
    const auto t = static_cast<std::int32_t>(draft.parents.size());
    const Forest forest = forest_of(150, {draft.parents, {-1}, draft.parents});
    for (const std::int32_t group : {1, 3, 4, 8}) {
      SCOPED_TRACE(concat(draft.name, ", g ", group));
      PolicySelector selector;
      const AttentionShape shape = testing::shape_of(group, 1);
      const MachineProfile profile = testing::cpu_like_profile(20);
      const PlanOptions options;
      selector.reset(forest, shape, profile, options);
      for (const Policy policy : testing::packing_policies()) {
        for (const KvSplit split : {KvSplit::kOwn, experimental::kSplitMean, experimental::kSplitLong}) {
          const Proposal& proposal = selector.propose(policy, split);
          Plan plan;
          PlanEmitter().emit(forest, proposal.packs, proposal.splitter, selector.tiles(), plan);
          EXPECT_GE(proposal.splitter.lengths().spans, static_cast<std::int64_t>(plan.spans.size()));
          EXPECT_GE(proposal.splitter.lengths().masks, static_cast<std::int64_t>(plan.masks.size()));
        }
      }
      // The capacities that PlanCapacity documents for `flat` suffice.
      const std::int32_t an_item = 128 / group;
      const std::int32_t items = 2 * ((t + an_item - 1) / an_item);
      PlanOptions flat = testing::options_of(Policy::kFlat, KvSplit::kNone);
      flat.capacity = {2 * t + 1, items + 1, 2 * items + 1, 1};
      const Plan plan = make_plan(forest, shape, profile, flat);
      EXPECT_EQ(plan.items.size(), static_cast<std::size_t>(items + 1));
      EXPECT_EQ(plan.spans.size(), static_cast<std::size_t>(2 * items + 1));
    }
  }
}

// Any single bit that shows a query a draft too many, or hides one, is found.
TEST(TokenTreePlan, TheValidatorFindsEveryFlippedBit) {
  std::mt19937_64 random(5);
  for (int round = 0; round < testing::scaled(100); ++round) {
    SCOPED_TRACE(concat("round ", round));
    Numbers parents = {-1};
    for (std::int32_t i = 1, t = uniform(random, 3, 12); i < t; ++i) parents.push_back(uniform(random, 0, i - 1));
    const Forest forest = forest_of(uniform(random, 0, 40), {parents});
    if (forest.query_parents.empty()) continue;
    const Plan plan = flat_plan(forest, 1, KvSplit::kNone);
    ASSERT_EQ(find_plan_violation(plan, forest), std::nullopt);
    ASSERT_EQ(plan.masks.size(), parents.size());
    for (std::int32_t token = 0; token < static_cast<std::int32_t>(parents.size()); ++token) {
      for (std::int32_t query = token; query < static_cast<std::int32_t>(parents.size()); ++query) {
        Plan broken = plan;
        broken.masks[static_cast<std::size_t>(token)].words[0] ^= std::uint64_t{1} << query;
        EXPECT_NE(find_plan_violation(broken, forest), std::nullopt) << "draft " << token << ", query " << query;
        EXPECT_NE(testing::play_plan(broken, forest, {3}), std::nullopt);
      }
    }
  }
}

}  // namespace
}  // namespace trunkline
