// Plans of the device planner equal the host planner's, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "cli/batch_file.hpp"
#include "plan/device/device_batches.hpp"
#include "plan/device/plan_case.hpp"
#include "plan/device/plan_growth.hpp"
#include "plan/test_cases.hpp"
#include "support/planner_batches.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline {
namespace {

using testing::HostThreads;
using testing::uniform;
using testing::UploadedPlan;

constexpr std::pair<std::int32_t, std::int32_t> kHeads[] = {{32, 8}, {16, 8}, {64, 8}, {32, 32}, {16, 1}};

PlanOptions trunk_options(const PlanCapacity& capacity) {
  PlanOptions options;
  options.policy = Policy::kTrunk;
  options.capacity = capacity;
  return options;
}

/// Returns capacities a little above those that a plan needs. Drafts that no query of a tile sees take memory of the
/// planner's, for which the capacity of spans stands, and give no span.
PlanCapacity room_for(const Plan& plan) {
  const auto queries = static_cast<std::int32_t>(plan.queries.size());
  const std::int32_t invisible = plan.masks.empty() ? 0 : queries;
  return {queries + 1, static_cast<std::int32_t>(plan.items.size()) + 1,
          static_cast<std::int32_t>(plan.spans.size()) + invisible + 1, plan.partials + 1};
}

MachineProfile h200_profile() {
  return load_profile(std::string(TRUNKLINE_DATA) + "/machines/h200-sxm.json");
}

/// Returns so many requests, neighbours of which share one of several prefixes.
Forest grouped_forest(std::int32_t requests, std::int32_t prefixes, std::int32_t shared, std::int32_t own) {
  std::vector<std::int32_t> parent(static_cast<std::size_t>(prefixes), -1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(prefixes), shared);
  std::vector<std::int32_t> end_node;
  for (std::int32_t i = 0; i < requests; ++i) {
    end_node.push_back(static_cast<std::int32_t>(parent.size()));
    parent.push_back(i * prefixes / requests);
    tokens.push_back(own);
  }
  return build_forest(ExplicitTree{parent, tokens, end_node});
}

/// \return summary of the device's plan
PlanSummary expect_same(const Forest& forest, const Plan& plan, const MachineProfile& profile,
                        const PlanCapacity& capacity, const HostThreads& threads = {}) {
  PlanSummary summary{};
  const UploadedPlan actual =
      testing::device_plan(forest, plan.shape, profile, capacity, threads, &summary, plan.invariant_chunk);
  EXPECT_EQ(testing::find_difference(testing::uploaded(plan, forest), actual), std::nullopt);
  EXPECT_EQ(summary.fallbacks, plan.statistics.fallbacks);
  EXPECT_EQ(summary.unplanned, 0);
  EXPECT_EQ(summary.read_tokens, plan.statistics.kv_tokens_read);
  EXPECT_EQ(summary.total_tokens, plan.statistics.kv_tokens_total);
  return summary;
}

PlanSummary expect_same(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                        const HostThreads& threads = {}) {
  const Plan plan = make_plan(forest, shape, profile, trunk_options({}));
  return expect_same(forest, plan, profile, room_for(plan), threads);
}

/// Machines whose tiles and costs differ; some without halves, narrow tiles or room for a request's queries.
MachineProfile any_profile(std::mt19937_64& random) {
  if (uniform(random, 0, 3) == 0) {
    MachineProfile profile = testing::cpu_like_profile(uniform(random, 1, 200));
    profile.device = Device::kCuda;
    profile.tile_steps = {{0, 16}, {64, 32}};
    profile.tiles = {{16, 16}, {16, 32}, {32, 32}, {64, 32}, {128, 32}};
    profile.half_rows = uniform(random, 0, 2) * 16;
    return profile;
  }
  MachineProfile profile = testing::hopper_like_profile(uniform(random, 1, 200));
  if (uniform(random, 0, 3) == 0) profile.tiles.pop_back();  // as at head size 256
  if (uniform(random, 0, 3) == 0) profile.item_us = profile.cut_us = 0;
  if (uniform(random, 0, 3) == 0) profile.worker_read_bytes_per_us = 0;
  if (uniform(random, 0, 7) == 0) profile.item_us = 1e7;  // costs whose sums take more than 32 bits
  if (uniform(random, 0, 7) == 0) profile.read_bytes_per_us = profile.worker_read_bytes_per_us = 1e-3;
  if (uniform(random, 0, 3) == 0) {
    profile.slice_tokens = 1 << uniform(random, 0, 6);
    profile.slice_alignment = std::max(profile.slice_tokens / 2, 1);
    profile.half_chunk_tokens = profile.slice_tokens << uniform(random, 0, 4);
    profile.common_chunk_tokens = profile.slice_tokens << uniform(random, 0, 4);
    profile.half_change_us = uniform(random, 0, 10) / 10.0;
  }
  return profile;
}

HostThreads any_order(std::mt19937_64& random) {
  return {uniform(random, 0, 1) == 0 ? 0 : random()};
}

struct Coverage {
  int cut = 0;
  int masked = 0;
  int fallbacks = 0;
  void count(const PlanSummary& status) {
    cut += status.partials > 0 ? 1 : 0;
    masked += status.masks > 0 ? 1 : 0;
    fallbacks += status.fallbacks;
  }
};

testing::RandomBatchOptions any_batch(std::mt19937_64& random, std::int32_t rows) {
  testing::RandomBatchOptions batch;
  batch.max_rows = uniform(random, 1, rows);
  batch.max_tokens = uniform(random, 0, 2) == 0 ? 8000 : uniform(random, 1, 400);
  batch.page_size = uniform(random, 0, 1) == 0 ? 1 : 16;
  batch.max_queries = uniform(random, 0, 2) == 0 ? uniform(random, 2, 40) : 1;
  return batch;
}

TEST(DevicePlan, RandomForests) {
  Coverage coverage;
  for (int seed = 0; seed < testing::scaled(4000) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 9'000'000);
    const Forest forest = build_forest(testing::make_random_batch(random, any_batch(random, 80)).view());
    const std::int32_t group = uniform(random, 1, 16);
    const std::int32_t kv_heads = uniform(random, 1, 8);
    const HostThreads order = any_order(random);
    coverage.count(expect_same(forest, testing::shape_of(kv_heads * group, kv_heads), any_profile(random), order));
  }
  EXPECT_GT(coverage.cut, 0);
  EXPECT_GT(coverage.masked, 0);
}

// Plans that start from page tables.
TEST(DevicePlan, RandomBatches) {
  for (int seed = 0; seed < testing::scaled(2000) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 4'000'000);
    testing::RandomBatch batch = testing::make_planner_batch(static_cast<std::uint64_t>(seed), 40);
    const Forest forest = build_forest(batch.view());
    const MachineProfile profile = any_profile(random);
    const Plan plan = make_plan(forest, testing::shape_of(32, 8), profile, trunk_options({}));
    PlanSummary summary{};
    const UploadedPlan actual = testing::device_plan(testing::device_batch_of(batch.view()), plan.shape, profile,
                                                     room_for(plan), any_order(random), &summary);
    EXPECT_EQ(testing::find_difference(testing::uploaded(plan, forest), actual), std::nullopt);
  }
}

/// A forest of `requests` leaves under random inner nodes, up to `depth` deep.
Forest random_tree(std::mt19937_64& random, std::int32_t requests, std::int32_t depth, std::int32_t tokens) {
  std::vector<std::int32_t> parent;
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> depths;
  std::vector<std::int32_t> end_node;
  for (std::int32_t i = 0; i < requests; ++i) {
    const std::int32_t nodes = static_cast<std::int32_t>(parent.size());
    std::int32_t above = nodes == 0 ? -1 : uniform(random, std::max(-1, nodes - 40), nodes - 1);
    if (above >= 0 && uniform(random, 0, 9) == 0) {
      end_node.push_back(above);
      continue;
    }
    while (above >= 0 && depths[static_cast<std::size_t>(above)] + 1 >= depth) {
      above = parent[static_cast<std::size_t>(above)];
    }
    parent.push_back(above);
    lengths.push_back(uniform(random, 1, tokens));
    depths.push_back(above < 0 ? 0 : depths[static_cast<std::size_t>(above)] + 1);
    above = static_cast<std::int32_t>(parent.size()) - 1;
    end_node.push_back(above);
  }
  return build_forest(ExplicitTree{parent, lengths, end_node});
}

TEST(DevicePlan, LargeAndDeepForests) {
  Coverage coverage;
  const MachineProfile h200 = h200_profile();
  for (int seed = 0; seed < testing::scaled(60) && !HasFailure(); ++seed) {
    for (const auto& [q_heads, kv_heads] : kHeads) {
      SCOPED_TRACE(concat("seed ", seed, " heads ", q_heads, "/", kv_heads));
      std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 1'000'000);
      const Forest forest =
          random_tree(random, uniform(random, 1, 1024), uniform(random, 1, 16), seed % 3 == 0 ? 64 : 3000);
      coverage.count(expect_same(forest, testing::shape_of(q_heads, kv_heads),
                                 seed % 2 == 0 ? h200 : testing::hopper_like_profile(132), any_order(random)));
    }
  }
  EXPECT_GT(coverage.cut, 0);
}

TEST(DevicePlan, DecodeBatches) {
  const MachineProfile h200 = h200_profile();
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(TRUNKLINE_DATA) / "decode_batches")) {
    for (const cli::DecodeBatch& batch : cli::load_decode_batches(file.path().string(), 2)) {
      for (const std::int32_t page_size : {1, 16}) {
        const PagedBatch paged = lay_out_pages(batch.tree, page_size, 1);
        const Forest forest = build_forest(paged.view());
        for (const auto& [q_heads, kv_heads] : kHeads) {
          SCOPED_TRACE(concat(batch.suite, " ", batch.label, " heads ", q_heads, "/", kv_heads));
          expect_same(forest, testing::shape_of(q_heads, kv_heads), h200);
        }
      }
    }
  }
}

TEST(DevicePlan, NoRows) {
  const PlanSummary summary = expect_same(Forest{}, testing::shape_of(32, 8), testing::hopper_like_profile(132));
  EXPECT_EQ(summary.items, 0);
}

// So many KV segments that a thread handles several; without cuts and with cuts.
TEST(DevicePlan, ThousandsOfKvSegments) {
  const MachineProfile profile = testing::hopper_like_profile(132);
  const PlanSummary whole = expect_same(testing::star_forest(20'000, 1024, 2000), testing::shape_of(32, 8), profile);
  EXPECT_GT(whole.spans, 1 << 13);
  EXPECT_EQ(whole.partials, 0);
  const PlanSummary cut = expect_same(testing::star_forest(100'000, 24, 90'000), testing::shape_of(32, 8), profile);
  EXPECT_GT(cut.spans, 1 << 13);
  EXPECT_GT(cut.partials, 0);
}

// Requests without queries or tokens, between ordinary ones and as the whole batch.
TEST(DevicePlan, PaddedAndIdleRows) {
  for (int seed = 0; seed < testing::scaled(1500) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 2'000'000);
    testing::RandomBatch batch = testing::make_random_batch(random, any_batch(random, 40));
    std::vector<std::int32_t> queries;
    batch.query_start = {0};
    const std::int32_t idle_share = uniform(random, 0, 3);
    const std::int32_t padded = uniform(random, 0, 3);
    for (std::int32_t& length : batch.kv_lens) {
      if (uniform(random, 0, 3) < padded) length = 0;
      const bool idle = uniform(random, 0, 3) < idle_share;
      batch.query_start.push_back(batch.query_start.back() + (idle ? 0 : std::max(1, std::min(length, 3))));
    }
    const Forest forest = build_forest(batch.view());
    expect_same(forest, testing::shape_of(16, 2), any_profile(random), any_order(random));
  }
}

// A batch that exceeds a capacity gets the host planner's `flat`, and nothing is written past a list.
TEST(DevicePlan, CapacitiesThatOverflow) {
  Coverage coverage;
  for (int seed = 0; seed < testing::scaled(3000) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 3'000'000);
    const Forest forest = build_forest(testing::make_random_batch(random, any_batch(random, 40)).view());
    const AttentionShape shape = testing::shape_of(2 * uniform(random, 1, 16), 2);
    const MachineProfile profile = any_profile(random);
    PlanOptions flat = trunk_options({});
    flat.policy = Policy::kFlat;
    flat.split = KvSplit::kNone;
    const PlanCapacity least = room_for(make_plan(forest, shape, profile, flat));
    const PlanCapacity most = room_for(make_plan(forest, shape, profile, trunk_options({})));
    const auto between = [&random](std::int32_t low, std::int32_t high) {  // or enough, lest no cut plan ever fits
      if (high > low && uniform(random, 0, 1) == 0) return high;
      return low + (high > low ? uniform(random, -1, high - low) : -1);
    };
    const PlanCapacity capacity = {least.queries - 1, between(least.items, most.items),
                                   between(least.spans, most.spans), std::max(1, between(0, most.partials))};
    const Plan plan = make_plan(forest, shape, profile, trunk_options(capacity));
    coverage.count(expect_same(forest, plan, profile, capacity, any_order(random)));
  }
  EXPECT_GT(coverage.fallbacks, 0);
  EXPECT_GT(coverage.cut, 0);
}

// Several real threads run the planner together, as on a device.
TEST(DevicePlan, RealThreadsMakeIt) {
  Coverage coverage;
  for (int seed = 0; seed < testing::scaled(12) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 5'000'000);
    const Forest forest = build_forest(testing::make_random_batch(random, any_batch(random, 40)).view());
    const AttentionShape shape = testing::shape_of(2 * uniform(random, 1, 16), 2);
    coverage.count(expect_same(forest, shape, any_profile(random), {0, 3}));
  }
}

// More tiles than a block has threads.
TEST(DevicePlan, ThousandsOfTiles) {
  for (const std::int32_t rows : {2048, 2100}) {
    SCOPED_TRACE(rows);
    expect_same(testing::star_forest(100, rows, 50), testing::shape_of(32, 8), testing::hopper_like_profile(132));
  }
}

TEST(DevicePlan, GroupsOfRequests) {
  for (const std::int32_t tiles : {31, 48, 65}) {
    for (const std::int32_t shared : {0, 900}) {
      SCOPED_TRACE(concat(tiles, " tiles, ", shared, " tokens shared"));
      const Forest forest = grouped_forest(16 * tiles, 3, shared, 3000);
      expect_same(forest, testing::shape_of(32, 8), testing::hopper_like_profile(132));
    }
  }
}

// The masks of draft trees, of which requests often have the same.
TEST(DevicePlan, DraftTrees) {
  Coverage coverage;
  for (int seed = 0; seed < testing::scaled(3000) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 7'000'000);
    testing::RandomBatchOptions options = any_batch(random, 40);
    options.max_queries = uniform(random, 2, 40);
    options.trees = true;
    const Forest forest = build_forest(testing::make_random_batch(random, options).view());
    const AttentionShape shape = testing::shape_of(2 * uniform(random, 1, 8), 2);
    coverage.count(expect_same(forest, shape, any_profile(random), any_order(random)));
  }
  EXPECT_GT(coverage.cut, 0);
}

TEST(DevicePlan, Invariant) {
  int merged = 0;
  for (int seed = 0; seed < testing::scaled(4000) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 8'000'000);
    testing::RandomBatchOptions options = any_batch(random, 60);
    options.trees = options.max_queries > 1 && uniform(random, 0, 1) == 0;
    const Forest forest = build_forest(testing::make_random_batch(random, options).view());
    PlanOptions plan_options;
    plan_options.policy = Policy::kInvariant;
    plan_options.policies.invariant_chunk = 1 << uniform(random, 4, 10);
    const AttentionShape shape = testing::shape_of(2 * uniform(random, 1, 16), 2);
    const MachineProfile profile = testing::hopper_like_profile(132);
    const Plan plan = make_plan(forest, shape, profile, plan_options);
    expect_same(forest, plan, profile, room_for(plan), any_order(random));
    merged += plan.partials > 0 ? 1 : 0;
  }
  EXPECT_GT(merged, 0);
}

// More tokens than sums of 32 bits hold.
TEST(DevicePlan, HugeRequests) {
  for (const std::int32_t requests : {3, 12}) {
    SCOPED_TRACE(requests);
    const Forest forest = testing::unshared_forest(requests, 900'000'000 / requests);
    expect_same(forest, testing::shape_of(32, 8), h200_profile());
    expect_same(forest, testing::shape_of(32, 8), h200_profile(), {7});
  }
}

// Rows that end in one item grow together: at 64 tokens more, 16 of them made 41 us of 35 (an H200, 16,368 tokens in
// common). Where each item has one end, or each worker as many, they may grow for long.
TEST(DevicePlan, RowsMayGrowByLessTheMoreOfThemEndInAnItem) {
  const MachineProfile profile = testing::hopper_like_profile(132);
  const auto growth_of = [&profile](const Forest& forest) {
    PlanSummary summary{};
    const PlanCapacity room{4096, 4096, 1 << 16, 8192};
    testing::device_plan(forest, testing::shape_of(32, 8), profile, room, {}, &summary);
    return summary.growth;
  };
  EXPECT_EQ(growth_of(testing::star_forest(16'368, 16, 17)), 4) << "all 16 end in the last item";
  EXPECT_EQ(growth_of(testing::star_forest(16'368, 16, 6000)), 16) << "an item holds one request's end";
  EXPECT_EQ(growth_of(testing::unshared_forest(256, 1024)), PlanGrowth::kUnlimited);
  EXPECT_EQ(growth_of(testing::unshared_forest(1, 1024)), 16);
  // The halves of a tile part within a request of three queries, where those of the tried tile do not. So its cuts were
  // not the packs', and what items would have had does not count.
  Forest forest = testing::star_forest(3152, 90, 3521);
  for (std::size_t i = 0; i < forest.requests.size(); ++i) {
    forest.requests[i].queries = 3;
    forest.requests[i].query_begin = static_cast<std::int32_t>(3 * i);
  }
  EXPECT_EQ(growth_of(forest), PlanGrowth::kUnlimited);
}

// More loads than are tried by a warp each, of which most have no tokens: they are no tasks where partials are counted.
TEST(DevicePlan, ManyEmptyRequests) {
  const MachineProfile profile = testing::hopper_like_profile(132);
  for (const std::int32_t empty : {4, 12, 60}) {
    SCOPED_TRACE(empty);
    std::vector<std::int32_t> parent = {-1};
    std::vector<std::int32_t> tokens = {4000};
    std::vector<std::int32_t> end_node;
    for (std::int32_t i = 1; i <= 20; ++i) {
      parent.push_back(0);
      tokens.push_back(50);
      end_node.push_back(i);
    }
    end_node.insert(end_node.end(), static_cast<std::size_t>(empty), -1);
    const Forest forest = build_forest(ExplicitTree{parent, tokens, end_node});
    EXPECT_GT(expect_same(forest, testing::shape_of(32, 8), profile).partials, 0);
  }
}

TEST(DevicePlan, WhatNotEvenFlatFitsHasNoItems) {
  const Forest forest = testing::star_forest(100, 20, 50);
  MachineProfile profile = testing::hopper_like_profile(132);
  profile.cut_us = 1000;  // cut tiles would not fit
  for (const PlanCapacity capacity : {PlanCapacity{19, 100, 100, 100}, {20, 19, 100, 100}, {20, 20, 19, 100}}) {
    PlanSummary status{};
    const UploadedPlan plan = testing::device_plan(forest, testing::shape_of(32, 8), profile, capacity, {}, &status);
    // A small number of wide tiles fits where many items of one request do not.
    EXPECT_EQ(status.unplanned, capacity.items < 20 ? 0 : 1);
    EXPECT_EQ(plan.items.empty(), status.unplanned == 1);
  }
}

}  // namespace
}  // namespace trunkline
