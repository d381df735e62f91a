// `trunk`: tiles of neighbouring requests, their halves, their order, and what is moved out of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "plan/cost_model.hpp"
#include "plan/plan_oracle.hpp"
#include "plan/policies/trunk_core.hpp"
#include "plan/test_cases.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::uniform;

std::shared_ptr<const experimental::PolicyStudy> hoisting(experimental::TrunkHoist hoist) {
  return std::make_shared<experimental::PolicyStudy>(experimental::PolicyStudy{.trunk_hoist = hoist});
}

Plan trunk_plan(const Forest& forest, std::int32_t q_heads, std::int32_t kv_heads, std::int32_t rows = 0,
                experimental::TrunkHoist hoist = experimental::TrunkHoist::kByDevice) {
  PlanOptions options = testing::options_of(Policy::kTrunk, KvSplit::kNone);
  options.policies.trunk_rows = rows;
  options.policies.study = hoisting(hoist);
  const Plan plan = make_plan(forest, testing::shape_of(q_heads, kv_heads), testing::hopper_like_profile(132), options);
  EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
  return plan;
}

std::vector<std::int32_t> item_sizes(const Plan& plan) {
  std::vector<std::int32_t> sizes;
  for (const WorkItem& item : plan.items) sizes.push_back(item.queries.size());
  return sizes;
}

// g = 4: 64 rows hold 16 requests, which stream the root once and 16 leaves under masks.
TEST(TrunkPolicy, EachTileReadsWhatItsRowsNeedOnce) {
  const Plan plan = trunk_plan(testing::star_forest(1000, 64, 100), 32, 8, 64);
  EXPECT_THAT(item_sizes(plan), ElementsAre(16, 16, 16, 16));
  EXPECT_EQ(plan.statistics.kv_tokens_read, 4 * 1000 + 64 * 100);
  EXPECT_EQ(plan.statistics.kv_tokens_grouped, 4 * 1000 + 64 * 100);
  EXPECT_EQ(plan.partials, 0);
  EXPECT_THAT(plan.item_outputs, Each(kDirect));
  for (const WorkItem& item : plan.items) {
    EXPECT_EQ(item.tile.m, 64);
    EXPECT_EQ(item.first_half, 0);
  }
}

TEST(TrunkPolicy, AWideTilesHalvesPassOverEachOthersLeaves) {
  const Plan plan = trunk_plan(testing::star_forest(1000, 64, 100), 32, 8, 128);
  EXPECT_THAT(item_sizes(plan), ElementsAre(32, 32));
  EXPECT_EQ(plan.statistics.kv_tokens_read, 2 * 1000 + 64 * 100);
  // Matrix work: the root for both halves, each leaf for its own.
  EXPECT_DOUBLE_EQ(plan.statistics.flops_padded, 4.0 * 128 * 8 * 64 * (2 * 2 * 1000 + 64 * 100));
  for (const WorkItem& item : plan.items) {
    EXPECT_EQ(item.first_half, 16);
    std::int32_t marked = 0;
    for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
      const KvSpan& span = plan.spans[static_cast<std::size_t>(i)];
      if ((span.flags & kSpanBothHalves) == 0) continue;
      EXPECT_FALSE(span.open_ended());
      marked += span.end - span.begin;
    }
    EXPECT_EQ(marked, 1000);
  }
}

// Spans that both halves read come from the cache for all tiles but the first, so they are interleaved with the leaves.
TEST(TrunkPolicy, SharedAndPrivateSpansAlternate) {
  const Plan plan = trunk_plan(testing::star_forest(1024, 32, 64), 32, 8, 128);
  ASSERT_EQ(plan.items.size(), 1u);
  std::vector<std::pair<bool, std::int32_t>> first;  // shared?, tokens
  for (std::size_t i = 0; i < 6; ++i) {
    const KvSpan& span = plan.spans[i];
    first.emplace_back((span.flags & kSpanBothHalves) != 0, span.open_ended() ? 64 : span.end - span.begin);
  }
  // 1,024 shared tokens, in chunks of 64, beside 32 leaves: 32 a leaf. Shared tokens come first, then two leaves of
  // each half at a time.
  EXPECT_THAT(first, ElementsAre(std::pair{true, 64}, std::pair{false, 64}, std::pair{false, 64}, std::pair{false, 64},
                                 std::pair{false, 64}, std::pair{true, 64}));
}

// Each half has work while the other has: their leaves come by turns, long ones in chunks of two KV tiles.
TEST(TrunkPolicy, LeavesOfBothHalvesAlternate) {
  constexpr std::int32_t kRoot = 256;
  constexpr std::int32_t kLeaf = 320;
  const Plan plan = trunk_plan(testing::star_forest(kRoot, 32 * 132, kLeaf), 32, 8, 128);
  ASSERT_EQ(plan.items.size(), 132u);
  const WorkItem& item = plan.items.front();
  ASSERT_EQ(item.first_half, 16);
  std::int32_t ahead = 0;  // tokens of the first half's leaves, less those of the second's
  for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
    const KvSpan& span = plan.spans[static_cast<std::size_t>(i)];
    if ((span.flags & kSpanBothHalves) != 0) continue;
    const QueryMask& mask = plan.masks[static_cast<std::size_t>(span.mask)];
    const std::int32_t tokens = (span.open_ended() ? kRoot + kLeaf : span.end) - span.begin;
    ahead += mask.words[0] < (std::uint64_t{1} << item.first_half) ? tokens : -tokens;
    EXPECT_LE(std::abs(ahead), 128) << "span " << i;
  }
  EXPECT_EQ(ahead, 0);
}

// 24 requests of one tree and 24 of another: a tile that held the end of one and the start of the other would stream
// both roots.
TEST(TrunkPolicy, TilesPreferToEndWhereTreesDo) {
  std::vector<std::int32_t> parent = {-1, -1};
  std::vector<std::int32_t> tokens = {5000, 5000};
  std::vector<std::int32_t> end_node;
  for (std::int32_t i = 0; i < 24; ++i) {
    parent.push_back(i / 12);
    tokens.push_back(10);
    end_node.push_back(i + 2);
  }
  const Forest forest = build_forest(ExplicitTree{parent, tokens, end_node});
  const Plan plan = trunk_plan(forest, 32, 8, 64);
  EXPECT_THAT(item_sizes(plan), ElementsAre(12, 12));
  EXPECT_EQ(plan.statistics.kv_tokens_read, 2 * 5000 + 24 * 10);
}

TEST(TrunkPolicy, GroupSizesThatDoNotDivideATile) {
  const Forest forest = testing::star_forest(500, 40, 20);
  for (const std::int32_t group : {3, 5, 6, 7, 12}) {
    SCOPED_TRACE(group);
    const Plan wide = trunk_plan(forest, group, 1, 128);
    for (const WorkItem& item : wide.items) {
      EXPECT_LE(item.first_half * group, 64);
      EXPECT_LE((item.queries.size() - item.first_half) * group, 64);
    }
  }
}

TEST(TrunkPolicy, EndsAtInnerNodesDuplicatesAndEmptyRequests) {
  const Plan chain = trunk_plan(testing::chain_forest(20, 100), 32, 8);
  EXPECT_EQ(chain.partials, 0);
  const Plan same = trunk_plan(testing::star_forest(100, 50, 0), 32, 8);
  EXPECT_EQ(same.partials, 0);
  Forest empty = build_forest(ExplicitTree{{}, {}, std::vector<std::int32_t>{-1, -1}});
  EXPECT_EQ(trunk_plan(empty, 32, 8).items.size(), 2u);
}

// A fifth of the KV bytes at most where there are more tasks than workers: 32 queries of g = 4 write 32 x 2,064 bytes a
// part and head.
TEST(TrunkPolicy, PartialsAreFewBesideWhatIsRead) {
  MachineProfile profile = testing::hopper_like_profile(132);
  profile.cut_us = 0;
  profile.item_us = 0;
  profile.partial_us_per_kib = 0;
  int many_tasks = 0;
  for (const std::int32_t tokens : {2000, 20'000, 200'000}) {
    for (const std::int32_t requests : {16, 600}) {
      SCOPED_TRACE(concat(requests, " requests of ", tokens, " tokens"));
      const Forest forest = testing::star_forest(tokens, requests, 50);
      const Plan plan =
          make_plan(forest, testing::shape_of(32, 8), profile, testing::options_of(Policy::kTrunk, KvSplit::kOwn));
      EXPECT_TRUE(tokens < 200'000 || plan.partials > 0);
      if (plan.items.size() * 8 <= 132) continue;
      EXPECT_LE(plan.statistics.partial_bytes / 2, plan.statistics.kv_bytes_read / 5);
      ++many_tasks;
    }
  }
  EXPECT_GT(many_tasks, 2);
}

// 16 samples of a prompt are one tile: uncut it leaves 124 of 132 workers idle, and partials of a part for each worker
// take more than a fifth of so few KV bytes.
TEST(TrunkPolicy, IdleWorkersTakePartsHoweverFewTokensThereAre) {
  const MachineProfile profile = testing::hopper_like_profile(132);
  const AttentionShape shape = testing::shape_of(32, 8);
  for (const std::int32_t own : {17, 65}) {
    SCOPED_TRACE(own);
    const Forest forest = testing::star_forest(2032, 16, own);
    const Plan plan = make_plan(forest, shape, profile, testing::options_of(Policy::kTrunk, KvSplit::kOwn));
    EXPECT_GE(plan.items.size(), 10u);
    EXPECT_GT(plan.statistics.partial_bytes / 2, plan.statistics.kv_bytes_read / 5);
  }
}

// Padding to the size of a captured graph: tasks without tokens are none.
TEST(TrunkPolicy, EmptyRequestsChangeNoCuts) {
  const MachineProfile profile = testing::hopper_like_profile(132);
  for (const std::int32_t requests : {16, 20, 30}) {
    for (const std::int32_t empty : {1, 4}) {
      SCOPED_TRACE(concat(requests, " requests, ", empty, " empty"));
      std::vector<std::int32_t> parent = {-1};
      std::vector<std::int32_t> tokens = {4000};
      std::vector<std::int32_t> end_node;
      for (std::int32_t i = 0; i < requests; ++i) {
        parent.push_back(0);
        tokens.push_back(50);
        end_node.push_back(i + 1);
      }
      const AttentionShape shape = testing::shape_of(32, 8);
      const PlanOptions options = testing::options_of(Policy::kTrunk, KvSplit::kOwn);
      const Plan plan = make_plan(build_forest(ExplicitTree{parent, tokens, end_node}), shape, profile, options);
      end_node.insert(end_node.end(), static_cast<std::size_t>(empty), -1);
      const Plan padded = make_plan(build_forest(ExplicitTree{parent, tokens, end_node}), shape, profile, options);
      EXPECT_GT(plan.partials, 0);
      EXPECT_EQ(padded.partials, plan.partials);
      EXPECT_EQ(padded.items.size(), plan.items.size() + static_cast<std::size_t>(empty));
    }
  }
}

struct Choice {
  Forest forest;
  std::int32_t q_heads;
  std::int32_t tile_rows;
  std::size_t items;
  bool cut;
};

// On 132 workers, with 8 KV heads: what the decisions are, so that another compiler's or a device's may be compared.
TEST(TrunkPolicy, ChoicesOnAGpu) {
  const Choice choices[] = {
      {testing::star_forest(256, 256, 32), 32, 64, 16, false},   // one wave of 128 tasks beats half a wave of wide ones
      {testing::star_forest(256, 256, 32), 64, 128, 16, false},  // twice the rows: wide tiles make the same wave
      {testing::star_forest(256, 256, 32), 16, 64, 16, false},   // half the rows: tiles that are half full do
      {testing::star_forest(250, 250, 32), 16, 64, 16, false},   // the last one has fewer
      {testing::star_forest(2048, 1024, 32), 32, 128, 32, false},  // the root is read half as often
      {testing::unshared_forest(256, 1024), 32, 64, 16, false},    // bound by memory: the least work
      {testing::unshared_forest(1, 32'768), 32, 64, 11, true},     // 11 parts x 8 heads keep memory busy
  };
  for (const Choice& choice : choices) {
    const Plan plan = make_plan(choice.forest, testing::shape_of(choice.q_heads, 8), testing::hopper_like_profile(132),
                                testing::options_of(Policy::kTrunk, KvSplit::kOwn));
    EXPECT_EQ(plan.items[0].tile.m, choice.tile_rows);
    EXPECT_EQ(plan.items.size(), choice.items);
    EXPECT_EQ(plan.partials > 0, choice.cut);
  }
}

TEST(TrunkPolicy, OnlyTilesOfTheProfileCanBeAskedFor) {
  testing::expect_error(ErrorCode::kInvalidArgument, "trunk_rows is 100; tiles that hold a query have 64, 128",
                        [] { trunk_plan(testing::star_forest(10, 2, 1), 32, 8, 100); });
}

TEST(TrunkPolicy, HoistingTakesPrefixesOutOfTiles) {
  const Forest forest = testing::star_forest(4000, 64, 200);
  const Plan never = trunk_plan(forest, 32, 8, 64, experimental::TrunkHoist::kNever);
  EXPECT_EQ(never.partials, 0);
  MachineProfile cpu = testing::cpu_like_profile(4);
  PlanOptions options = testing::options_of(Policy::kTrunk, KvSplit::kNone);
  options.policies.trunk_rows = 16;  // 4 requests a tile: the root would be read 16 times
  options.policies.study = hoisting(experimental::TrunkHoist::kByCost);
  const Plan hoisted = make_plan(forest, testing::shape_of(32, 8), cpu, options);
  EXPECT_EQ(find_plan_violation(hoisted, forest), std::nullopt);
  EXPECT_LT(hoisted.statistics.kv_tokens_read, never.statistics.kv_tokens_read);
  EXPECT_GT(hoisted.partials, 0);
  options.policies.study = hoisting(experimental::TrunkHoist::kNever);
  EXPECT_EQ(make_plan(forest, testing::shape_of(32, 8), cpu, options).partials, 0);
}

TEST(TrunkPolicy, RandomForestsAreValidOnAMachineWithHalves) {
  std::int64_t halves = 0;
  for (int seed = 0; seed < testing::scaled(2000); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 4'000'000);
    testing::RandomBatchOptions batch;
    batch.max_rows = uniform(random, 1, 80);
    batch.max_tokens = uniform(random, 1, 400);
    batch.page_size = uniform(random, 0, 1) == 0 ? 1 : 16;
    batch.max_queries = uniform(random, 0, 2) == 0 ? 9 : 1;
    const Forest forest = build_forest(testing::make_random_batch(random, batch).view());
    const std::int32_t group = uniform(random, 1, 16);
    const MachineProfile profile = testing::hopper_like_profile(uniform(random, 1, 200));
    for (const experimental::TrunkHoist hoist : {experimental::TrunkHoist::kNever, experimental::TrunkHoist::kByCost}) {
      PlanOptions options = testing::options_of(Policy::kTrunk, KvSplit::kOwn);
      options.policies.study = hoisting(hoist);
      options.policies.trunk_rows = std::vector<std::int32_t>{0, 64, 128}[static_cast<std::size_t>(seed % 3)];
      const Plan plan = make_plan(forest, testing::shape_of(2 * group, 2), profile, options);
      ASSERT_EQ(find_plan_violation(plan, forest), std::nullopt);
      for (const WorkItem& item : plan.items) halves += item.first_half > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(halves, 0);
}

/// Tokens of the requests [begin, end) of Forest::order, counted one by one.
std::int64_t union_tokens(const Forest& forest, std::int32_t begin, std::int32_t end) {
  std::set<std::int32_t> nodes;
  for (std::int32_t i = begin; i < end; ++i) {
    std::int32_t node = forest.requests[static_cast<std::size_t>(forest.order[static_cast<std::size_t>(i)])].node;
    for (; node >= 0; node = forest.nodes[static_cast<std::size_t>(node)].parent) nodes.insert(node);
  }
  std::int64_t tokens = 0;
  for (const std::int32_t node : nodes) tokens += forest.nodes[static_cast<std::size_t>(node)].tokens();
  return tokens;
}

// Requests that wide tiles leave over get a narrow tile. With the rest priced as a wide tile, 69 agents' requests, 32
// and 32 and 5, were estimated to be faster in narrow tiles, which take an H200 80 us, not 66.
TEST(TrunkCore, WhatIsLeftOverIsPricedAsTheNarrowTileThatItGets) {
  TaskCosts costs;
  costs.whole_tiles = true;
  costs.half_rows = 64;
  const std::int32_t tokens[] = {100, 100, 100, 100, 100};
  const std::int32_t shared[] = {0, 40, 40, 40, 40};
  const std::int64_t fresh_before[] = {0, 100, 160, 220, 280, 340};
  const std::int32_t query_begin[] = {0, 4, 8, 12, 16, 20};
  const TrunkRequests requests{tokens, shared, fresh_before, query_begin, 5, 340, false};
  const TrunkTiling tiling(costs, requests);
  const TrunkWidth widths[] = {{.rows = 64, .max_queries = 16}, {.rows = 128, .max_queries = 32, .halves = true}};
  TrunkWidth wide = widths[1];
  wide.narrow_queries = narrow_queries(wide, widths, 2);
  EXPECT_EQ(wide.narrow_queries, 16);
  const TaskLoad left_over = tiling.load(wide, 0, 4);
  EXPECT_EQ(left_over.rows, 64);
  EXPECT_EQ(left_over.matrix_tokens, left_over.tokens) << "all work on it as one";
  EXPECT_GT(tiling.load(wide, 0, 5).matrix_tokens, tiling.load(wide, 0, 5).tokens);
  const TaskLoad not_narrowed = tiling.load(narrowed_for(17, wide), 0, 4);
  EXPECT_GT(not_narrowed.matrix_tokens, not_narrowed.tokens) << "a request of 17 queries fits no narrow tile";
}

// Tiles with a cap are only tried where some may be closed early.
TEST(TrunkCore, TilesThatMayNotCloseAreFullWhateverTheCap) {
  TaskCosts costs;
  costs.memory_per_token = std::int64_t{1} << TaskCosts::kFractionBits;
  const TrunkWidth width = {.rows = 64, .max_queries = 8};
  int may_not = 0;
  int closed = 0;
  for (int seed = 0; seed < testing::scaled(3000); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const std::int32_t count = testing::uniform(random, 1, 40);
    const std::int32_t max_shared = testing::uniform(random, 0, 1) * 1000;
    std::vector<std::int32_t> tokens, shared;
    std::vector<std::int64_t> fresh_before = {0};
    std::vector<std::int32_t> query_begin = {0};
    for (std::int32_t i = 0; i < count; ++i) {
      shared.push_back(i == 0 ? 0 : min(testing::uniform(random, max_shared / 2, max_shared), tokens.back()));
      tokens.push_back(shared.back() + testing::uniform(random, 1, 100));
      fresh_before.push_back(fresh_before.back() + tokens.back() - shared.back());
      query_begin.push_back(query_begin.back() + testing::uniform(random, 0, 3));
    }
    const TrunkRequests requests{tokens.data(),       shared.data(), fresh_before.data(), query_begin.data(), count,
                                 fresh_before.back(), false};
    const TrunkTiling tiling(costs, requests);
    for (std::int32_t begin = 0; begin < count; ++begin) {
      const Nanoseconds cap = testing::uniform(random, 1, 3000);
      const bool may_close = tiling.may_close(width, begin);
      const bool is_other = tiling.tile_end(width, begin, cap) != tiling.tile_end(width, begin, 0);
      ASSERT_TRUE(may_close || !is_other) << "at request " << begin;
      may_not += may_close ? 0 : 1;
      closed += is_other ? 1 : 0;
    }
  }
  EXPECT_GT(may_not, 0);
  EXPECT_GT(closed, 0);
}

TEST(TrunkCore, ATilesTokensAreTheUnionOfItsPaths) {
  for (int seed = 0; seed < testing::scaled(300); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const Forest forest = build_forest(testing::make_random_batch(random, {}).view());
    const Plan plan = trunk_plan(forest, 4, 1, 64);
    std::int64_t read = 0;
    std::int32_t begin = 0;
    for (const WorkItem& item : plan.items) {
      const std::int32_t end = begin + item.queries.size();
      read += union_tokens(forest, begin, end);
      begin = end;
    }
    EXPECT_EQ(plan.statistics.kv_tokens_read, read);
  }
}

}  // namespace
}  // namespace trunkline
