// The cases that each published system fails somewhere: one test each, on every policy and executor.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention_case.hpp"
#include "kv/paged_batch.hpp"
#include "kv/prefix_tree.hpp"
#include "support/policies.hpp"

namespace trunkline::testing {
namespace {

// A machine on which long items are cut into many pieces.
MachineProfile many_workers() {
  MachineProfile profile = generic_cpu_profile(96);
  profile.item_us = 0.001;
  profile.partial_us_per_kib = 0;
  return profile;
}

void expect_all_policies_match(const AttentionShape& shape, const Batch& batch, bool with_reference = true) {
  const AttentionCase test(shape, batch);
  for (const Policy policy : packing_policies()) {
    for (const KvSplit split : {KvSplit::kNone, KvSplit::kBalance, KvSplit::kMean}) {
      SCOPED_TRACE(::testing::Message() << name_of(policy) << " split " << name_of(split));
      PlanOptions options;
      options.policy = policy;
      options.split = split;
      const Plan plan = make_plan(test.forest(), shape, many_workers(), options);
      validate_plan(plan, test.forest());
      for (const CpuIsa isa : available_isas()) {
        SCOPED_TRACE(name_of(isa));
        EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {MergeMode::kFused, isa}), kFloatTolerance));
        EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {MergeMode::kSeparate, isa}), kFloatTolerance));
      }
      if (with_reference) {
        EXPECT_TRUE(test.matches(test.run_reference(plan), 1e-6));
      }
    }
  }
}

void expect_tree_matches(const PrefixTree& tree, std::int32_t group, std::int32_t page_size = 16) {
  const PagedBatch paged = lay_out_pages(tree, page_size, 7);
  expect_all_policies_match(make_shape(1, group, 64, page_size), paged.view(), false);
}

TEST(Acceptance, SeveralRoots) {
  for (const std::int32_t group : {1, 3, 5, 7, 12}) expect_tree_matches(tree_from_levels("3,6,12/40,33,17"), group);
}

TEST(Acceptance, QueryEndingInsideANode) {
  // The first request's whole text is the beginning of the others': it ends in the middle of their first node, and
  // inside a page.
  const PrefixTree tree{"inner ends", {-1, 0, 1, 1}, {40, 30, 50, 9}, {0, 1, 2, 3}};
  expect_tree_matches(tree, 4);
  expect_tree_matches(tree, 4, 1);
}

TEST(Acceptance, SameLastPageWithDifferentLengths) {
  const std::vector<std::int32_t> ids{3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 0};
  const std::vector<std::int32_t> lens{37, 40, 48, 20};
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 4, 3, 16);
  batch.kv_lens = lens;
  batch.num_pages = 5;
  expect_all_policies_match(make_shape(2, 4, 64, 16), batch);
}

TEST(Acceptance, UnevenDepthWithKvSplit) {
  const PrefixTree tree{"uneven", {-1, 0, 1, 2, 0, -1, 3}, {700, 300, 400, 90, 1500, 2000, 16}, {1, 2, 6, 3, 4, 5, 4}};
  expect_tree_matches(tree, 4);
}

TEST(Acceptance, ManyShortRequestsAndOneOf128K) {
  PrefixTree tree;
  tree.name = "long tail";
  for (std::int32_t request = 0; request < 64; ++request) {
    tree.parent.push_back(-1);
    tree.tokens.push_back(request == 0 ? 128 << 10 : 100 + request);
    tree.end_node.push_back(request);
  }
  const PagedBatch paged = lay_out_pages(tree, 16, 1);
  const AttentionCase test(make_shape(1, 2, 64, 16), paged.view());
  for (const KvSplit split : {KvSplit::kNone, KvSplit::kBalance, KvSplit::kMean}) {
    PlanOptions options;
    options.split = split;
    const Plan plan = make_plan(test.forest(), test.shape(), many_workers(), options);
    validate_plan(plan, test.forest());
    std::int32_t most = 0;
    for (std::size_t i = 0; i + 1 < plan.merge_begin.size(); ++i) {
      most = std::max(most, plan.merge_begin[i + 1] - plan.merge_begin[i]);
    }
    // More than 32 partials of one query: the limit of a published kernel.
    if (split == KvSplit::kMean) {
      EXPECT_GT(most, 32);
    }
    EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers()), 2e-4)) << name_of(split);
  }
}

TEST(Acceptance, NoSharingWithMixedShortLengths) {
  const PrefixTree tree{"mixed", {-1, -1, -1, -1}, {60, 100, 200, 1000}, {0, 1, 2, 3}};
  expect_tree_matches(tree, 4);
}

TEST(Acceptance, OneRequestWithVeryManyPages) {
  expect_tree_matches(PrefixTree{"one", {-1}, {9000}, {0}}, 2, 1);
}

TEST(Acceptance, ThreeAndMoreSiblings) {
  expect_tree_matches(tree_from_levels("1,3,15/64,48,20"), 6);
}

TEST(Acceptance, ManyQueriesOnANode) {
  for (const char* levels : {"1,17/64,20", "1,33/64,20", "1,65/64,20", "1,129/64,20", "1,300/64,3"}) {
    SCOPED_TRACE(levels);
    expect_tree_matches(tree_from_levels(levels), 2);
  }
}

TEST(Acceptance, EmptyRequests) {
  const PrefixTree tree{"empty", {-1, 0}, {30, 20}, {-1, 1, -1, 0, -1}};
  expect_tree_matches(tree, 4);
  expect_tree_matches(PrefixTree{"all empty", {}, {}, {-1, -1}}, 4);
}

TEST(Acceptance, NoRequestsAtAll) {
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(), 0, 0, 16);
  const AttentionShape shape = make_shape(2, 4, 64, 16);
  const Plan plan = make_plan(build_forest(batch), shape, generic_cpu_profile(2), {});
  const CpuExecutor executor(test_workers());
  AlignedWorkspace workspace(executor.workspace_bytes(plan, 0));
  executor.resolve(plan, batch, workspace.bytes());
  EXPECT_NO_THROW(executor.run({}, workspace.bytes()));
}

TEST(Acceptance, DuplicatesOfOneRequest) {
  expect_tree_matches(PrefixTree{"duplicates", {-1, 0}, {50, 41}, {1, 1, 1, 0, 0, 1}}, 8);
}

}  // namespace
}  // namespace trunkline::testing
