// Random machines, tiles, options and capacities: whatever a profile says, a plan is right, fits, and is made again
// alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "base/check.hpp"
#include "plan/policy_selector.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using testing::uniform;

template <class T>
T any_of(std::mt19937_64& random, const std::vector<T>& choices) {
  return choices[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(choices.size()) - 1))];
}

double figure(std::mt19937_64& random, double most) {
  return uniform(random, 0, 1) == 0 ? 0 : most * uniform(random, 0, 100) / 100;
}

/// Some requests without a query, as engines pad their batches.
void drop_queries(std::mt19937_64& random, testing::RandomBatch& batch) {
  std::vector<std::int32_t> start = {0};
  for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
    const std::int32_t queries = batch.query_start.empty() ? 1 : batch.query_start[row + 1] - batch.query_start[row];
    start.push_back(start.back() + (uniform(random, 0, 2) == 0 ? 0 : queries));
  }
  batch.query_start = start;
}

Forest random_forest(std::mt19937_64& random) {
  testing::RandomBatchOptions options;
  options.max_rows = uniform(random, 1, 40);
  options.max_tokens = uniform(random, 1, 10) == 1 ? 2000 : uniform(random, 1, 200);
  options.page_size = any_of<std::int32_t>(random, {1, 2, 16, 24});
  options.max_queries = uniform(random, 0, 2) == 0 ? 60 : 1;
  options.trees = uniform(random, 0, 3) == 0;
  if (options.trees) options.max_queries = uniform(random, 2, 200);
  testing::RandomBatch batch = testing::make_random_batch(random, options);
  if (!options.trees && uniform(random, 0, 2) == 0) drop_queries(random, batch);
  return build_forest(batch.view());
}

MachineProfile random_machine(std::mt19937_64& random) {
  MachineProfile profile;
  profile.device = uniform(random, 0, 1) == 0 ? Device::kCpu : Device::kCuda;
  profile.workers = any_of<std::int32_t>(random, {1, 2, 3, 16, 64, 132, 1000});
  profile.read_bytes_per_us = any_of<double>(random, {1, 1e3, 1e5, 1e7});
  profile.flops_per_us = any_of<double>(random, {1, 1e4, 1e6, 1e10});
  profile.cache_bytes_per_us = figure(random, 3 * profile.read_bytes_per_us);
  profile.worker_read_bytes_per_us = figure(random, 4 * profile.read_bytes_per_us / profile.workers);
  profile.launch_us = figure(random, 10);
  profile.item_us = figure(random, 10);
  profile.cut_us = figure(random, 5);
  profile.partial_us_per_kib = figure(random, 1);
  profile.memory_overlap = uniform(random, 0, 10) / 10.0;
  profile.flop_efficiency = uniform(random, 1, 10) / 10.0;
  profile.narrow_rows = uniform(random, 0, 64);
  profile.row_quantum = uniform(random, 1, 64);
  profile.llc_bytes = std::int64_t{1} << uniform(random, 0, 26);
  for (int i = uniform(random, 1, 6); i > 0; --i) {
    profile.tiles.push_back(
        {any_of<std::int32_t>(random, {1, 3, 7, 8, 12, 16, 20, 24, 32, 48, 64, 100, 128, 256, 2048}),
         uniform(random, 1, 200)});
  }
  if (uniform(random, 0, 1) == 0) {
    profile.half_rows = uniform(random, 0, 1) == 0 ? any_of(random, profile.tiles).m / 2 : uniform(random, 1, 64);
    profile.half_change_us = figure(random, 16);
    profile.slice_tokens = 1 << uniform(random, 0, 6);
    profile.slice_alignment = std::max(profile.slice_tokens / 2, 1);
    profile.half_chunk_tokens = profile.slice_tokens << uniform(random, 0, 4);
    profile.common_chunk_tokens = profile.slice_tokens << uniform(random, 0, 4);
  }
  return profile;
}

PlanOptions random_options(std::mt19937_64& random, const MachineProfile& profile) {
  PlanOptions options =
      testing::options_of(any_of(random, testing::all_policies()), static_cast<KvSplit>(uniform(random, 0, 4)));
  if (uniform(random, 0, 2) == 0) options.tile = any_of(random, profile.tiles);
  PolicyOptions& policies = options.policies;
  policies.node_chunk = uniform(random, 0, 1) == 0 ? 0 : uniform(random, 1, 100);
  experimental::PolicyStudy study;
  study.profit_cost = static_cast<experimental::ProfitCost>(uniform(random, 0, 1));
  study.greedy_phases = uniform(random, 0, 1) == 0;
  policies.flatten_block = uniform(random, 1, 300);
  policies.invariant_chunk = uniform(random, 1, 300);
  study.trunk_hoist = static_cast<experimental::TrunkHoist>(uniform(random, 0, 2));
  policies.study = std::make_shared<experimental::PolicyStudy>(study);
  return options;
}

/// The capacities that `flat` needs without cuts, as PlanCapacity documents them.
PlanCapacity min_capacity(const Forest& forest, std::int32_t item_queries) {
  PlanCapacity capacity;
  for (const ForestRequest& request : forest.requests) {
    const std::int32_t items = (request.queries + item_queries - 1) / item_queries;
    capacity.queries += request.queries;
    capacity.items += items;
    capacity.spans += items * (request.tree ? 2 : 1);
  }
  capacity.partials = 1;
  return capacity;
}

void expect_sound(Planner& planner, const Forest& forest, const AttentionShape& shape, const PlanOptions& options) {
  const Plan plan = planner.plan(forest, shape, options);
  ASSERT_EQ(find_plan_violation(plan, forest), std::nullopt);
  EXPECT_GE(plan.statistics.kv_bytes_reread, 0);
  for (const WorkItem& item : plan.items) {
    if (item.first_half == 0) continue;
    EXPECT_EQ(item.tile.m, 2 * planner.profile().half_rows);
  }
  Plan again = planner.plan(forest, shape, options);
  again.epoch = plan.epoch;
  EXPECT_EQ(plan_to_json(again), plan_to_json(plan));
}

TEST(RandomMachine, PlansAreSound) {
  int planned = 0;
  for (int seed = 0; seed < testing::scaled(300); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 6'000'000);
    const Forest forest = random_forest(random);
    Planner planner(random_machine(random));
    for (int round = 0; round < 6; ++round) {
      const std::int32_t group = uniform(random, 1, 16);
      const std::int32_t kv_heads = uniform(random, 1, 8);
      const AttentionShape shape =
          AttentionShape::uniform(group * kv_heads, kv_heads, 128, 16, DType::kF16, planner.profile().device);
      PlanOptions options = random_options(random, planner.profile());
      SCOPED_TRACE(concat("seed ", seed, ", round ", round, ", g ", group, ", ", name_of(options.policy), ", ",
                          name_of(options.split)));
      try {
        if (uniform(random, 0, 2) == 0 && options.policy != Policy::kInvariant) {  // which falls back to nothing
          options.capacity = min_capacity(forest, max_item_queries(planner.profile(), group));
        }
        expect_sound(planner, forest, shape, options);
        ++planned;
      } catch (const Error& error) {  // no tile holds one query
        ASSERT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      }
    }
  }
  EXPECT_GT(planned, testing::scaled(300));
}

// A candidate that `auto` passes over without an estimate would not have been chosen.
TEST(RandomMachine, CountsBoundEstimates) {
  int bounds = 0;  // that say more than the launch
  for (int seed = 0; seed < testing::scaled(3000); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 7'000'000);
    const Forest forest = random_forest(random);
    const MachineProfile profile = random_machine(random);
    const std::int32_t kv_heads = uniform(random, 1, 8);
    const AttentionShape shape =
        AttentionShape::uniform(uniform(random, 1, 16) * kv_heads, kv_heads, 128, 16, DType::kF16, profile.device);
    const PlanOptions options = random_options(random, profile);
    SCOPED_TRACE(concat("seed ", seed));
    PolicySelector selector;
    try {
      selector.reset(forest, shape, profile, options);
    } catch (const Error& error) {  // no tile holds one query, or not the one that is asked for
      continue;
    }
    for (const Policy policy : auto_candidates(profile.device)) {
      const Nanoseconds least = selector.min_time(policy);
      EXPECT_LE(least, selector.estimate(policy).time) << name_of(policy);
      const auto launch = static_cast<Nanoseconds>(1000 * (profile.launch_us + profile.fill_us)) + 1;
      bounds += policy != Policy::kFlat && least > launch ? 1 : 0;
    }
  }
  EXPECT_GT(bounds, testing::scaled(300));
}

// 100,000 requests of 2 G tokens, and a machine on which every figure is extreme.
TEST(RandomMachine, HugeBatchesDoNotOverflow) {
  std::vector<std::int32_t> parent = {-1};
  std::vector<std::int32_t> tokens = {100'000'000};
  std::vector<std::int32_t> end_node;
  for (std::int32_t i = 0; i < 100'000; ++i) {
    parent.push_back(0);
    tokens.push_back(2'000'000'000);
    end_node.push_back(i + 1);
  }
  const Forest forest = build_forest(ExplicitTree{parent, tokens, end_node});
  MachineProfile profile;
  profile.read_bytes_per_us = 1;
  profile.cache_bytes_per_us = 4;
  profile.flops_per_us = 1;
  profile.memory_overlap = 0;
  profile.llc_bytes = std::int64_t{1} << 60;
  profile.tiles = {{16, 64}, {128, 64}};
  for (const Policy policy : testing::all_policies()) {
    if (policy == Policy::kFlatten || policy == Policy::kInvariant) continue;  // 1.6 T blocks, 195 G chunks
    SCOPED_TRACE(name_of(policy));
    const Plan plan =
        make_plan(forest, AttentionShape::uniform(1, 1, 128, 16), profile, testing::options_of(policy, KvSplit::kNone));
    EXPECT_GT(plan.statistics.predicted_us, 1e9);
    EXPECT_EQ(plan.schedule.size(), plan.items.size());
  }
}

}  // namespace
}  // namespace trunkline
