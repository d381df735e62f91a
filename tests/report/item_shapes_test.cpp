#include "report/item_shapes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "base/check.hpp"
#include "plan/policy_selector.hpp"
#include "plan/test_cases.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"

namespace trunkline::report {
namespace {

struct Pictured {
  Plan plan;
  std::vector<Nanoseconds> costs;
  TaskCosts model;
};

Pictured picture(const Forest& forest, const MachineProfile& profile, const AttentionShape& shape, Policy policy) {
  const PlanOptions options = testing::options_of(policy, KvSplit::kOwn);
  Pictured result{make_plan(forest, shape, profile, options), {}, {}};
  PolicySelector selector;
  selector.reset(forest, shape, profile, options);
  const Proposal& proposal = selector.propose(policy, options.split);
  const std::span<const Nanoseconds> costs = proposal.splitter.item_costs();
  result.costs.assign(costs.begin(), costs.end());
  result.model = proposal.costs.tasks();
  return result;
}

ItemShapes shapes_of(const Pictured& pictured, const Forest& forest) {
  return item_shapes(pictured.plan, forest, pictured.costs, pictured.model);
}

TEST(ItemShapes, AreOneForItemsThatLookAlike) {
  const Forest forest = testing::star_forest(100, 6, 20);
  const Pictured pictured = picture(forest, testing::cpu_like_profile(1), testing::shape_of(8, 2), Policy::kNode);
  const ItemShapes shapes = shapes_of(pictured, forest);
  ASSERT_EQ(shapes.shapes.size(), 2U);
  const ItemShape& root = shapes.shapes[0];
  EXPECT_EQ(root.items, 1);
  EXPECT_EQ(root.queries, 6);
  EXPECT_EQ(root.tokens, 100);
  EXPECT_EQ(root.partials, 6);
  const ItemShape& leaf = shapes.shapes[1];
  EXPECT_EQ(leaf.items, 6);
  EXPECT_EQ(leaf.queries, 1);
  EXPECT_EQ(leaf.tokens, 20);
  EXPECT_EQ(leaf.spans, (std::vector<ShapeSpan>{{20, {{0, 1}}}}));
}

TEST(ItemShapes, SayWhichQueriesSeeWhatATileStreams) {
  const Forest forest = testing::star_forest(64, 3, 16);
  const Pictured pictured = picture(forest, testing::hopper_like_profile(2), testing::shape_of(8, 2), Policy::kTrunk);
  const ItemShapes shapes = shapes_of(pictured, forest);
  ASSERT_EQ(shapes.shapes.size(), 1U) << "one tile holds all";
  std::vector<std::int64_t> seen(3, 0);
  for (const ShapeSpan& span : shapes.shapes[0].spans) {
    for (const Range run : span.readers) {
      for (std::int32_t query = run.begin; query < run.end; ++query)
        seen[static_cast<std::size_t>(query)] += span.tokens;
    }
  }
  EXPECT_EQ(seen, (std::vector<std::int64_t>{80, 80, 80}));
  EXPECT_EQ(shapes.shapes[0].tokens, 64 + 3 * 16);
}

TEST(ItemShapes, SumUpWhatIsBeyondTheLimits) {
  const Forest forest = testing::chain_forest(30, 10);
  const Pictured pictured = picture(forest, testing::cpu_like_profile(1), testing::shape_of(4, 4), Policy::kFlat);
  const ItemShapes few = item_shapes(pictured.plan, forest, pictured.costs, pictured.model, 4);
  EXPECT_EQ(few.shapes.size(), 4U);
  EXPECT_EQ(few.shapes[0].tokens, 300) << "the costliest first";
  EXPECT_EQ(few.other_items, 26);
  EXPECT_EQ(few.other_tokens, 10 * 26 * 27 / 2);
  EXPECT_EQ(item_shapes(pictured.plan, forest, pictured.costs, pictured.model, 100, 7).shapes.size(), 7U);
}

// (row, token) pairs that are computed for a shape, as the page draws them.
std::int64_t computed_pairs(const ItemShape& shape) {
  std::int64_t pairs = 0;
  for (const ShapeSpan& span : shape.spans) {
    const auto needed = [&span](std::int32_t begin, std::int32_t end) {
      return std::any_of(span.readers.begin(), span.readers.end(),
                         [begin, end](Range run) { return run.begin < end && begin < run.end; });
    };
    if (shape.first_half == 0) {
      pairs += span.tokens * shape.rows;
      continue;
    }
    pairs += needed(0, shape.first_half) ? span.tokens * shape.rows : 0;
    pairs += needed(shape.first_half, shape.queries) ? span.tokens * shape.rows : 0;
  }
  return pairs;
}

TEST(ItemShapes, AddUpToThePlansStatistics) {
  for (int seed = 0; seed < testing::scaled(300); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    testing::RandomBatchOptions batch;
    batch.max_rows = 40;
    const Forest forest = build_forest(testing::make_random_batch(random, batch).view());
    const AttentionShape shape = testing::shape_of(8, 2);
    const MachineProfile profile = seed % 2 == 0 ? testing::hopper_like_profile(16) : testing::cpu_like_profile(4);
    for (const Policy policy : testing::packing_policies()) {
      SCOPED_TRACE(concat("seed ", seed, ", ", name_of(policy)));
      const Pictured pictured = picture(forest, profile, shape, policy);
      std::int64_t items = 0;
      std::int64_t tokens = 0;
      std::int64_t partials = 0;
      double pairs = 0;
      for (const ItemShape& item : shapes_of(pictured, forest).shapes) {
        items += item.items;
        tokens += item.items * item.tokens;
        partials += item.items * item.partials;
        pairs += static_cast<double>(item.items) * static_cast<double>(computed_pairs(item));
      }
      const PlanStatistics& statistics = pictured.plan.statistics;
      ASSERT_EQ(pictured.costs.size(), pictured.plan.items.size());
      ASSERT_EQ(items, static_cast<std::int64_t>(pictured.plan.items.size()));
      ASSERT_EQ(tokens, statistics.kv_tokens_read);
      ASSERT_EQ(partials, statistics.partials);
      ASSERT_DOUBLE_EQ(pairs * 4 * shape.head_dim_qk * shape.kv_heads, statistics.flops_padded);
    }
  }
}

}  // namespace
}  // namespace trunkline::report
