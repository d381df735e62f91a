// `invariant`: chunks worked by hand, and what every query reads on random forests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "plan/policy_packs.hpp"
#include "plan/test_cases.hpp"
#include "support/expect_error.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "support/visible_runs.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using ::testing::ElementsAre;
using testing::PolicyPacks;
using testing::uniform;

PolicyOptions chunks_of(std::int32_t tokens) {
  PolicyOptions options;
  options.invariant_chunk = tokens;
  return options;
}

Plan plan_of(const Forest& forest, std::int32_t chunk, const MachineProfile& profile = testing::cpu_like_profile(4)) {
  return testing::valid_plan(forest, testing::shape_of(8, 8), profile, Policy::kInvariant, chunks_of(chunk),
                             experimental::kSplitMean);
}

// A root of 250 tokens with leaves of 30 and 150: the first two chunks are common, the third is not. The second leaf
// ends with a chunk, whose item has its tail.
TEST(InvariantPolicy, SharesTheChunksThatAreWholeForAll) {
  const std::vector<std::int32_t> parent = {-1, 0, 0};
  const std::vector<std::int32_t> tokens = {250, 30, 150};
  const std::vector<std::int32_t> ends = {1, 2};
  const Plan plan = plan_of(build_forest(ExplicitTree{parent, tokens, ends}), 100);
  EXPECT_THAT(plan.spans,
              ElementsAre(KvSpan{0, 0, 0, 100, -1, kSpanAbsolute}, KvSpan{0, 0, 100, 200, -1, kSpanAbsolute},  //
                          KvSpan{1, 0, 200, 300, -1, kSpanAbsolute}, KvSpan{1, 0, 300, 400, -1, kSpanAbsolute},
                          KvSpan{1, 0, 400, 0, -1, kSpanEndFromEnd},  //
                          KvSpan{0, 0, 200, 0, -1, kSpanEndFromEnd}));
  EXPECT_EQ(plan.items.size(), 5u);
  EXPECT_EQ(plan.partials, 3 + 4);
  EXPECT_EQ(plan.statistics.kv_tokens_read, 250 + 30 + 150 + 50);
  EXPECT_EQ(plan.invariant_chunk, 100);
}

// Three requests end with the last chunk: their open ends are empty tails in it, of no item of their own.
TEST(InvariantPolicy, AWholeNumberOfChunksNeedsNoRemainder) {
  const Plan two = plan_of(testing::star_forest(200, 3, 0), 100);
  EXPECT_EQ(two.items.size(), 2u);
  EXPECT_EQ(two.partials, 3 * 2);
  const Plan one = plan_of(testing::star_forest(100, 3, 0), 100);
  EXPECT_EQ(one.items.size(), 1u);
  EXPECT_EQ(one.partials, 0);
}

TEST(InvariantPolicy, AShortRequestIsDirectWhoeverItSharesWith) {
  const Plan plan = plan_of(testing::chain_forest(2, 100), 100);  // of 100 and 200 tokens
  EXPECT_EQ(plan.items.size(), 2u);
  EXPECT_THAT(plan.item_outputs, ElementsAre(kDirect, 0, 1));
}

TEST(InvariantPolicy, AllTilesOfAGpuAreOfOneHeightThatWorksAsOne) {
  const PolicyPacks packs(Policy::kInvariant, testing::star_forest(3000, 100, 50), testing::shape_of(32, 8),
                          testing::hopper_like_profile(132));
  EXPECT_THAT(packs.tile_rows(), ::testing::Each(64));
  EXPECT_THAT(packs.pack_queries(), ::testing::Each(::testing::Le(16)));
}

TEST(InvariantPolicy, RefusesTilesThatWorkAsTwo) {
  PlanOptions options;
  options.policy = Policy::kInvariant;
  options.tile = {128, 64};
  const MachineProfile profile = testing::hopper_like_profile(132);
  AttentionShape shape = testing::shape_of(32, 8);
  shape.device = profile.device;
  testing::expect_error(ErrorCode::kUnsupported, "all tiles have 128 rows and work as two halves of 64",
                        [&] { make_plan(testing::star_forest(2000, 3, 50), shape, profile, options); });
  options.tile = {64, 64};
  EXPECT_GT(make_plan(testing::star_forest(2000, 3, 50), shape, profile, options).partials, 0);
}

TEST(InvariantPolicy, DoesNotFallBackToOtherBits) {
  PlanOptions options = testing::options_of(Policy::kInvariant, KvSplit::kOwn);
  options.capacity.items = 11;
  testing::expect_error(ErrorCode::kWorkspace, "falls back to no other", [&] {
    make_plan(testing::star_forest(2048, 10, 20), testing::shape_of(32, 8), testing::cpu_like_profile(4), options);
  });
  options.capacity.items = 12;
  EXPECT_EQ(
      make_plan(testing::star_forest(2048, 10, 20), testing::shape_of(32, 8), testing::cpu_like_profile(4), options)
          .policy,
      Policy::kInvariant);
}

TEST(InvariantPolicy, ChunksHaveTokens) {
  PlanOptions options;
  options.policies.invariant_chunk = 0;
  testing::expect_error(ErrorCode::kInvalidArgument, "invariant_chunk is 0", [&] {
    make_plan(testing::star_forest(10, 2, 2), testing::shape_of(32, 8), testing::cpu_like_profile(4), options);
  });
}

// The most that PlanCapacity says such a plan needs.
TEST(InvariantPolicy, NeedsNoMoreThanItsCapacity) {
  for (int seed = 0; seed < testing::scaled(2000); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 8'500'000);
    testing::RandomBatchOptions batch;
    batch.max_rows = 30;
    batch.max_tokens = 300;
    batch.max_queries = uniform(random, 1, 40);
    batch.trees = uniform(random, 0, 1) == 0;
    const Forest forest = build_forest(testing::make_random_batch(random, batch).view());
    MachineProfile profile = testing::hopper_like_profile(8);
    PlanOptions options = testing::options_of(Policy::kInvariant, KvSplit::kOwn);
    options.policies.invariant_chunk = uniform(random, 1, 120);
    const AttentionShape shape = testing::shape_of(2 * uniform(random, 1, 16), 2);
    MachineProfile one_tile = profile;
    one_tile.tiles = {{64, 64}};
    const std::int32_t most = max_item_queries(one_tile, shape.group_size());
    PlanCapacity& capacity = options.capacity;
    for (const ForestRequest& request : forest.requests) {
      const std::int32_t last = std::max(request.kv_len - (request.tree ? request.queries : 1), 0);
      const std::int32_t chunks = last / options.policies.invariant_chunk + 1;
      const std::int32_t items = chunks * ((request.queries + most - 1) / most);
      capacity.queries += request.queries;
      capacity.items += items;
      capacity.spans += items + (request.queries + most - 1) / most;
      capacity.partials += chunks > 1 ? chunks * request.queries : 0;
    }
    capacity.partials = std::max(capacity.partials, 1);
    EXPECT_NO_THROW(make_plan(forest, shape, profile, options)) << "seed " << seed;
  }
}

/// The runs that a request without a draft tree reads: chunk by chunk, by the request's length alone.
std::vector<std::vector<Range>> chunks_by_hand(std::int32_t kv_len, std::int32_t chunk) {
  std::vector<std::vector<Range>> runs;
  for (std::int32_t begin = 0; begin < kv_len; begin += chunk)
    runs.push_back({{begin, std::min(begin + chunk, kv_len)}});
  if (runs.empty()) runs.push_back({});
  return runs;
}

TEST(InvariantPolicy, WhatIsReadFollowsFromTheLength) {
  for (int seed = 0; seed < testing::scaled(2000); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 8'000'000);
    testing::RandomBatchOptions batch;
    batch.max_rows = 30;
    batch.max_tokens = 300;
    batch.page_size = uniform(random, 1, 40);
    batch.max_queries = uniform(random, 0, 1) == 0 ? 1 : 9;
    const Forest forest = build_forest(testing::make_random_batch(random, batch).view());
    const std::int32_t chunk = uniform(random, 1, 120);
    const bool gpu = uniform(random, 0, 1) == 0;
    const Plan plan = plan_of(forest, chunk, gpu ? testing::hopper_like_profile(8) : testing::cpu_like_profile(8));
    std::map<std::int32_t, std::int32_t> lengths;
    for (const ForestRequest& request : forest.requests) lengths[request.slot] = request.kv_len;
    const testing::VisibleRuns runs = testing::visible_runs(plan, lengths);
    for (const auto& [query, items] : runs) {
      ASSERT_EQ(items, chunks_by_hand(lengths.at(query.first), chunk)) << "seed " << seed << ", slot " << query.first;
    }
  }
}

}  // namespace
}  // namespace trunkline
