// The cases that each published system fails somewhere: one test each, on every policy and executor.
#include <gtest/gtest.h>

#include "exec/executor_cases.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/prefix_tree.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

// A machine on which long items are cut into many parts.
MachineProfile many_workers() {
  MachineProfile profile = generic_cpu_profile(96);
  profile.item_us = 0.001;
  profile.partial_us_per_kib = 0;
  return profile;
}

void expect_all_policies_match(const AttentionShape& shape, const Batch& batch, bool with_reference = true) {
  const AttentionCase test(shape, batch);
  for (const Policy policy : packing_policies()) {
    for (const KvSplit split : {KvSplit::kNone, KvSplit::kBalance, experimental::kSplitMean}) {
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
  expect_tree_matches(ends_inside_a_node(), 4);
  expect_tree_matches(ends_inside_a_node(), 4, 1);
}

TEST(Acceptance, SameLastPageWithDifferentLengths) {
  const SamePages same_pages;
  expect_all_policies_match(make_shape(2, 4, 64, 16), same_pages.view());
}

TEST(Acceptance, UnevenDepthWithKvSplit) {
  expect_tree_matches(uneven_depths(), 4);
}

TEST(Acceptance, ManyShortRequestsAndOneOf128K) {
  const PagedBatch paged = lay_out_pages(long_tail(), 16, 1);
  const AttentionCase test(make_shape(1, 2, 64, 16), paged.view());
  for (const KvSplit split : {KvSplit::kNone, KvSplit::kBalance, experimental::kSplitMean}) {
    PlanOptions options;
    options.split = split;
    const Plan plan = make_plan(test.forest(), test.shape(), many_workers(), options);
    validate_plan(plan, test.forest());
    // More than 32 partials of one query: the limit of a published kernel.
    if (split == experimental::kSplitMean) {
      EXPECT_GT(max_partials(plan), 32);
    }
    EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers()), 2e-4)) << name_of(split);
  }
}

TEST(Acceptance, NoSharingWithMixedShortLengths) {
  expect_tree_matches(lengths_without_sharing(), 4);
}

TEST(Acceptance, OneRequestWithVeryManyPages) {
  expect_tree_matches(PrefixTree{"one", {-1}, {9000}, {0}}, 2, 1);
}

TEST(Acceptance, ThreeAndMoreSiblings) {
  expect_tree_matches(tree_from_levels("1,3,15/64,48,20"), 6);
}

TEST(Acceptance, ManyQueriesOnANode) {
  for (const char* levels : kManyQueriesOnANode) {
    SCOPED_TRACE(levels);
    expect_tree_matches(tree_from_levels(levels), 2);
  }
}

TEST(Acceptance, EmptyRequests) {
  expect_tree_matches(empty_requests(), 4);
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
  expect_tree_matches(duplicates(), 8);
}

}  // namespace
}  // namespace trunkline::testing
