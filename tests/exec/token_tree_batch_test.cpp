// The published draft trees through every policy and both executors: alone, over shared prefixes beside other requests,
// and from step to step with one plan.
#include <gtest/gtest.h>

#include <random>
#include <span>

#include "attention_case.hpp"
#include "support/draft_trees.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/prefix_tree.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

struct Setting {
  std::int32_t group;
  std::int32_t page_size;
};
constexpr Setting kSettings[] = {{1, 1}, {3, 16}, {4, 24}, {8, 16}};

// A machine for which cutting pays at every length that a test can afford.
MachineProfile cutting_profile() {
  MachineProfile profile = generic_cpu_profile(32);
  profile.item_us = 0.001;
  profile.partial_us_per_kib = 0;
  profile.launch_us = 0;
  return profile;
}

// The reference executor is slow, so it runs one policy in turn.
void expect_policies_match(const AttentionCase& test, std::span<const KvSplit> splits, std::size_t turn) {
  const std::vector<Policy> policies = all_policies();
  const std::vector<CpuIsa> isas = available_isas();
  for (std::size_t i = 0; i < policies.size(); ++i) {
    for (const KvSplit split : splits) {
      SCOPED_TRACE(::testing::Message() << name_of(policies[i]) << " split " << name_of(split));
      const Plan plan = make_plan(test.forest(), test.shape(), cutting_profile(), options_of(policies[i], split));
      ASSERT_EQ(find_plan_violation(plan, test.forest()), std::nullopt);
      const CpuOptions cpu{(turn + i) % 2 == 0 ? MergeMode::kFused : MergeMode::kSeparate,
                           isas[(turn + i) % isas.size()]};
      ASSERT_TRUE(test.matches(test.run_cpu(plan, test_workers(), cpu), kFloatTolerance));
      if ((turn + i) % policies.size() == 0) {
        ASSERT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << "reference";
      }
    }
  }
}

TEST(TokenTreeBatch, EveryTopologyAlone) {
  std::size_t turn = 0;
  for (const DraftTree& draft : published_draft_trees()) {
    for (const Setting setting : kSettings) {
      const std::int32_t past = std::vector<std::int32_t>{0, 5, 48, 133}[turn % 4];
      SCOPED_TRACE(::testing::Message() << draft.name << ", " << past << " past, g " << setting.group << ", pages of "
                                        << setting.page_size);
      const PrefixTree tree{"alone", {-1}, {past}, {0}, {draft.parents}};
      const PagedBatch paged = lay_out_pages(tree, setting.page_size, 7);
      const AttentionCase test(make_shape(1, setting.group, 64, setting.page_size), paged.view());
      expect_policies_match(test, std::vector{KvSplit::kOwn, experimental::kSplitMean}, turn++);
    }
  }
  EXPECT_EQ(turn, 16 * std::size(kSettings));
}

// A trunk, branches below it, and requests that end in any node: with a published tree, a chain of drafts, or neither.
PrefixTree random_tree(std::mt19937_64& random, std::int32_t requests) {
  const std::vector<DraftTree>& published = published_draft_trees();
  PrefixTree tree{"mixed", {-1}, {uniform(random, 1, 90)}, {}, {}};
  for (std::int32_t node = 1; node < 6; ++node) {
    tree.parent.push_back(uniform(random, -1, node - 1));
    tree.tokens.push_back(uniform(random, 0, 50));
  }
  for (std::int32_t request = 0; request < requests; ++request) {
    tree.end_node.push_back(uniform(random, -1, 5));
    std::vector<std::int32_t> drafts;
    const std::int32_t kind = uniform(random, 0, 5);
    if (kind == 0) {
      for (std::int32_t i = uniform(random, 1, 6); i > 0; --i) {
        drafts.push_back(static_cast<std::int32_t>(drafts.size()) - 1);
      }
    } else if (kind > 1) {
      drafts = published[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(published.size()) - 1))]
                   .parents;
    }
    tree.drafts.push_back(drafts);
  }
  return tree;
}

TEST(TokenTreeBatch, OverSharedPrefixesBesidePlainAndChainedRows) {
  for (int round = 0; round < scaled(24); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 300;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Setting setting = kSettings[round % 4];
    const PagedBatch paged = lay_out_pages(random_tree(random, uniform(random, 3, 8)), setting.page_size, seed);
    const AttentionCase test(make_shape(1, setting.group, 64, setting.page_size), paged.view());
    expect_policies_match(test, std::vector{KvSplit::kOwn, KvSplit::kBalance, experimental::kSplitMean},
                          static_cast<std::size_t>(round));
  }
}

// Lengthens the leaf of each request, as when a step has accepted drafts; the request drafts the same tree again.
void accept(PrefixTree& tree, std::int32_t first_leaf, std::mt19937_64& random) {
  for (std::size_t request = 0; request < tree.end_node.size(); ++request) {
    // Rejecting all drafts still accepts the root; a request may also wait for a step.
    tree.tokens[static_cast<std::size_t>(first_leaf) + request] += uniform(random, 0, 5);
  }
}

TEST(TokenTreeBatch, OnePlanLastsWhileDraftsAreAcceptedAndRejected) {
  const std::vector<DraftTree>& published = published_draft_trees();
  for (std::size_t round = 0; round < static_cast<std::size_t>(scaled(8)); ++round) {
    SCOPED_TRACE(::testing::Message() << "seed " << round);
    std::mt19937_64 random(round);
    // Shared tokens end with full pages: later layouts then share just the same ones, as an engine's cache would.
    PrefixTree tree{"steps", {-1, 0}, {64, 32}, {}, {}};
    for (std::int32_t request = 0; request < 4; ++request) {
      tree.parent.push_back(request % 2);
      tree.tokens.push_back(request);
      tree.end_node.push_back(2 + request);
      tree.drafts.push_back(request == 3 ? std::vector<std::int32_t>{}
                                         : published[(3 * round + static_cast<std::size_t>(request)) % 16].parents);
    }
    const AttentionShape shape = make_shape(1, 4, 64, 16);
    const PagedBatch first = lay_out_pages(tree, 16, 1);
    const Forest forest = build_forest(first.view());
    std::vector<Plan> plans;
    for (const Policy policy : packing_policies()) {
      plans.push_back(make_plan(forest, shape, cutting_profile(),
                                options_of(policy, round % 2 == 0 ? KvSplit::kOwn : experimental::kSplitMean)));
    }
    for (int step = 0; step < 4; ++step) {
      accept(tree, 2, random);
      const PagedBatch paged = lay_out_pages(tree, 16, 2);
      const AttentionCase test(shape, paged.view());
      for (const Plan& plan : plans) {
        SCOPED_TRACE(::testing::Message() << name_of(plan.policy) << ", step " << step);
        ASSERT_TRUE(test.matches(test.run_cpu(plan, test_workers()), kFloatTolerance));
        if (step == 3 && &plan == &plans[round % plans.size()]) {
          ASSERT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << "reference";
        }
      }
    }
  }
}

class TokenTreeStale : public ::testing::Test {
 protected:
  void expect_stale(const PrefixTree& tree, const char* message) {
    const PagedBatch paged = lay_out_pages(tree, 16, 1);
    const Batch batch = paged.view();
    AlignedWorkspace workspace(executor_.workspace_bytes(plan_, batch.rows()));
    expect_error(ErrorCode::kStale, message, [&] { executor_.resolve(plan_, batch, workspace.bytes()); });
  }

  const PrefixTree tree_{"request", {-1}, {100}, {0}, {{-1, 0, 0, 1}}};
  const CpuExecutor executor_{test_workers()};
  const Plan plan_ = make_plan(build_forest(lay_out_pages(tree_, 16, 1).view()), make_shape(1, 4, 64, 16),
                               cutting_profile(), options_of(Policy::kFlat, KvSplit::kNone));
};

TEST_F(TokenTreeStale, AnotherTree) {
  PrefixTree other = tree_;
  other.drafts[0][3] = 2;
  expect_stale(other, "query_parents[3] is 2 for query token 3 of row 0, but the plan was made for 1");
  other.drafts[0] = {-1, 0, 1, 2};
  expect_stale(other, "query_parents[2] is 1");
  other.drafts[0] = {-1, 0, 0};
  expect_stale(other, "the batch has 3 query tokens, but the plan was made for 4");
}

// A plan that reads the first 64 tokens by position: of a request with 60 and 4 drafts it would show the drafts to all.
TEST_F(TokenTreeStale, ARequestThatLostPartOfItsPast) {
  Plan plan = plan_;
  plan.spans[0].begin = 64;
  plan.spans.insert(plan.spans.begin(), {0, 0, 0, 64});
  plan.items[0].spans.end += 1;
  const auto resolve = [&](std::int32_t past) {
    PrefixTree tree = tree_;
    tree.tokens[0] = past;
    const PagedBatch paged = lay_out_pages(tree, 16, 1);
    AlignedWorkspace workspace(executor_.workspace_bytes(plan, 1));
    executor_.resolve(plan, paged.view(), workspace.bytes());
  };
  EXPECT_NO_THROW(resolve(100));
  EXPECT_NO_THROW(resolve(64));
  expect_error(ErrorCode::kStale, "kv_lens[0] is 67, but span 1 of the plan needs 68 tokens of slot 0",
               [&] { resolve(63); });
}

}  // namespace
}  // namespace trunkline::testing
