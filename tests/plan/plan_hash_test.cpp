// Plans are what they have been: a hash of each policy's plans on three machines. A change that is meant to make
// planning faster, or the code clearer, leaves all of them; one that changes a policy replaces its row, by what the
// test prints.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "plan/policies/policy_table.hpp"
#include "plan/test_cases.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using testing::uniform;

class Hash {
 public:
  template <class... Values>
  void add(Values... values) {
    (mix(static_cast<std::uint64_t>(values)), ...);
  }
  void add(Range range) { add(range.begin, range.end); }
  void add(const std::vector<std::int32_t>& list) {
    add(list.size());
    for (const std::int32_t value : list) add(value);
  }
  void add(const Plan& plan);
  std::uint64_t value() const { return value_; }

 private:
  void mix(std::uint64_t word) { value_ = (value_ ^ (value_ >> 29) ^ word) * 0x9E3779B97F4A7C15u; }

  std::uint64_t value_ = 0;
};

/// All lists, the policy's row in the table, and the statistics that are integers. The predicted time is one, in
/// nanoseconds.
void Hash::add(const Plan& plan) {
  add(&policy_info(plan.policy) - policy_table().data(), plan.partials, plan.queries.size(), plan.items.size(),
      plan.spans.size(), plan.masks.size());
  for (const Query& query : plan.queries) add(query.slot, query.generation, query.token, query.from_end, query.parent);
  for (const WorkItem& item : plan.items) {
    add(item.queries);
    add(item.spans);
    add(item.tile.m, item.tile.n, item.first_half);
  }
  for (const KvSpan& span : plan.spans) {
    add(span.slot, span.generation, span.begin, span.end, span.mask, span.flags);
  }
  for (const QueryMask& mask : plan.masks) add(mask.words[0], mask.words[1]);
  for (const auto* list : {&plan.item_queries, &plan.item_outputs, &plan.merge_queries, &plan.merge_begin,
                           &plan.merge_slots, &plan.schedule}) {
    add(*list);
  }
  const PlanStatistics& statistics = plan.statistics;
  add(statistics.kv_tokens_distinct, statistics.kv_tokens_read, statistics.kv_tokens_grouped, statistics.kv_bytes_read,
      statistics.partial_bytes, statistics.fallbacks, std::llround(statistics.predicted_us * 1e3));
}

/// Trees of 1,024 requests with one to five levels, and small batches of all kinds.
std::vector<Forest> forests() {
  std::vector<Forest> result = {testing::unshared_forest(1024, 300), testing::star_forest(2048, 1024, 32),
                                testing::star_forest(90, 1000, 700), testing::chain_forest(40, 70)};
  for (const std::int32_t fan_out : {2, 4, 32}) {
    std::vector<std::int32_t> parent = {-1};
    std::vector<std::int32_t> tokens = {500};
    for (std::int32_t node = 0; static_cast<std::int32_t>(parent.size()) < 1024 + 1024 / fan_out; ++node) {
      for (std::int32_t child = 0; child < fan_out; ++child) {
        parent.push_back(node);
        tokens.push_back(20 + 37 * (static_cast<std::int32_t>(parent.size()) % 23));
      }
    }
    std::vector<std::int32_t> end_node;
    for (auto node = static_cast<std::int32_t>(parent.size()) - 1024; end_node.size() < 1024; ++node) {
      end_node.push_back(node);
    }
    result.push_back(build_forest(ExplicitTree{parent, tokens, end_node}));
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    testing::RandomBatchOptions options;
    options.max_rows = uniform(random, 1, 60);
    options.max_tokens = uniform(random, 1, 2000);
    options.page_size = uniform(random, 1, 24);
    options.max_queries = uniform(random, 0, 2) == 0 ? 40 : 1;
    options.trees = options.max_queries > 1 && uniform(random, 0, 1) == 0;
    result.push_back(build_forest(testing::make_random_batch(random, options).view()));
  }
  return result;
}

struct Known {
  Policy policy;
  std::uint64_t on_cpu;     // cpu_like_profile(2)
  std::uint64_t on_cores;   // cpu_like_profile(64)
  std::uint64_t on_hopper;  // hopper_like_profile(132)
};

constexpr Known kKnown[] = {
    {Policy::kFlat, 0x81ec9908f62795ea, 0x2f478c0f2f377f4a, 0x1d53003a30725368},
    {Policy::kCascade, 0xb0e3320e7790f307, 0x07264c24a033e092, 0x544d584e09faf9c3},
    {Policy::kNode, 0xbe6ce524fb7336ac, 0x8e2d349ddfc14ea9, 0x100e158e59d62307},
    {Policy::kProfit, 0x97b569718731656e, 0xaa018a9f88af29b2, 0x41617215acecff95},
    {Policy::kGreedy, 0xb5c26e537f930264, 0x2d6721c2c7a0db03, 0xb9c8af3397c293a0},
    {Policy::kFlatten, 0xd8a58b58d83ab6e8, 0xfb04338aba3fb42b, 0x0c93bf85ade5876d},
    {Policy::kBalanced, 0x8ac3788d41cbc03a, 0x533e0ff1d5b456a2, 0x96d31c01de40ca09},
    {Policy::kTrunk, 0x9a0163ad1459f501, 0x122a609bd834235f, 0xafb03477d00b7ae0},
    {Policy::kInvariant, 0x640ad8b926c7cb93, 0x28c5ae3282c75cf9, 0x74a3234ae5e03a55},
    {Policy::kAuto, 0xbe596d247998463c, 0x3371c0ceb3208732, 0x54fb9fbb4ad2a128},
};

std::uint64_t hash_plans(const std::vector<Forest>& forests, Policy policy, const MachineProfile& profile) {
  Planner planner(profile);
  Hash hash;
  for (const Forest& forest : forests) {
    for (const std::int32_t kv_heads : {8, 2}) {
      AttentionShape shape = testing::shape_of(32, kv_heads);
      shape.device = profile.device;
      for (const KvSplit split : {KvSplit::kOwn, experimental::kSplitMean}) {
        hash.add(planner.plan(forest, shape, testing::options_of(policy, split)));
      }
    }
  }
  return hash.value();
}

TEST(PlanHash, PlansAreWhatTheyHaveBeen) {
  const std::vector<Forest> all = forests();
  ASSERT_EQ(std::size(kKnown), testing::all_policies().size());
  for (const Known& known : kKnown) {
    SCOPED_TRACE(name_of(known.policy));
    EXPECT_EQ(hash_plans(all, known.policy, testing::cpu_like_profile(2)), known.on_cpu);
    EXPECT_EQ(hash_plans(all, known.policy, testing::cpu_like_profile(64)), known.on_cores);
    EXPECT_EQ(hash_plans(all, known.policy, testing::hopper_like_profile(132)), known.on_hopper);
  }
}

}  // namespace
}  // namespace trunkline
