// The cases that each published system fails somewhere: one test each, on every policy, cut and forward mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/device_case.hpp"
#include "exec/executor_cases.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/prefix_tree.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kManyWorkers = 96;

class CudaAcceptance : public CudaTest {
 protected:
  void expect_tree_matches(const PrefixTree& tree, std::int32_t group, std::int32_t page_size = 16,
                           std::int32_t head_dim = 64, DType dtype = DType::kF16) {
    SCOPED_TRACE(::testing::Message() << tree.name << ", g " << group << ", pages of " << page_size << ", d "
                                      << head_dim << ", " << name_of(dtype));
    const PagedBatch paged = lay_out_pages(tree, page_size, 7);
    const AttentionCase test(make_shape(2, group, head_dim, page_size, dtype), paged.view());
    expect_all_policies_match(test, kManyWorkers);
  }
};

TEST_F(CudaAcceptance, SeveralRootsAndOddGroups) {
  const PrefixTree tree = tree_from_levels("3,6,12/40,33,17");
  for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16}) expect_tree_matches(tree, group);
}

// Up to the rows of the portable kernels' largest tile, which are those of a half of the Hopper kernels' largest tile.
TEST_F(CudaAcceptance, LargeGroups) {
  const PrefixTree tree = tree_from_levels("1,3,6/170,65,31");
  for (const std::int32_t group : {17, 24, 32, 48, 64}) {
    for (const std::int32_t head_dim : {64, 128}) expect_tree_matches(tree, group, 16, head_dim);
  }
}

TEST_F(CudaAcceptance, EveryHeadSizeAndType) {
  const PrefixTree tree = tree_from_levels("1,3,9/170,65,31");
  for (const std::int32_t head_dim : {64, 128, 256}) {
    for (const DType dtype : {DType::kF16, DType::kBF16}) expect_tree_matches(tree, 4, 16, head_dim, dtype);
  }
}

TEST_F(CudaAcceptance, EveryPageSize) {
  const PrefixTree tree = tree_from_levels("1,3,9/170,65,31");
  for (const std::int32_t page_size : {1, 3, 8, 16, 20, 24, 32, 64, 128}) expect_tree_matches(tree, 4, page_size, 128);
  for (const std::int32_t page_size : {1, 8, 20, 24, 32}) {
    for (const std::int32_t head_dim : {64, 256}) expect_tree_matches(tree, 4, page_size, head_dim);
  }
}

TEST_F(CudaAcceptance, QueryEndingInsideANode) {
  expect_tree_matches(ends_inside_a_node(), 4);
  expect_tree_matches(ends_inside_a_node(), 4, 1);
}

TEST_F(CudaAcceptance, SameLastPageWithDifferentLengths) {
  const SamePages same_pages;
  const AttentionCase test(make_shape(2, 4, 64, 16), same_pages.view());
  expect_all_policies_match(test, kManyWorkers);
}

TEST_F(CudaAcceptance, UnevenDepthWithKvSplit) {
  expect_tree_matches(uneven_depths(), 4);
}

TEST_F(CudaAcceptance, ManyShortRequestsAndOneOf128K) {
  const PagedBatch paged = lay_out_pages(long_tail(), 16, 1);
  const AttentionCase test(make_shape(1, 2, 64, 16), paged.view());
  for (const KvSplit split : {KvSplit::kNone, KvSplit::kBalance, experimental::kSplitMean}) {
    const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(kManyWorkers),
                                options_of(Policy::kAuto, split));
    if (split == experimental::kSplitMean) {
      EXPECT_GT(max_partials(plan), 32) << "partials of one query: the limit of a published kernel";
    }
    EXPECT_TRUE(test.matches(run_cuda(test, plan), tolerance_of(DType::kF16))) << name_of(split);
  }
}

TEST_F(CudaAcceptance, NoSharingWithMixedShortLengths) {
  expect_tree_matches(lengths_without_sharing(), 4, 16, 128);
}

TEST_F(CudaAcceptance, OneRequestWithVeryManyPages) {
  expect_tree_matches(PrefixTree{"one", {-1}, {9000}, {0}}, 2, 1);
}

TEST_F(CudaAcceptance, ThreeAndMoreSiblings) {
  expect_tree_matches(tree_from_levels("1,3,15/64,48,20"), 6);
}

TEST_F(CudaAcceptance, ManyQueriesOnANode) {
  for (const char* levels : kManyQueriesOnANode) {
    expect_tree_matches(tree_from_levels(levels), 2);
  }
}

// Returns a trunk with a leaf of so many tokens for each request.
PrefixTree trunk_and_leaves(const char* name, std::int32_t trunk, const std::vector<std::int32_t>& leaves) {
  PrefixTree tree{name, {-1}, {trunk}, {}, {}};
  for (const std::int32_t tokens : leaves) {
    tree.parent.push_back(0);
    tree.tokens.push_back(tokens);
    tree.end_node.push_back(static_cast<std::int32_t>(tree.parent.size()) - 1);
  }
  return tree;
}

// 32 requests over a trunk, a tile of 128 rows at g 4: each of its first half has `first` tokens of its own, each of
// its second `second`. If one is small and the other 400, a warpgroup of the Hopper kernels passes more than a hundred
// stages of the other warpgroup, where the ring holds six.
PrefixTree uneven_halves(std::int32_t first, std::int32_t second) {
  std::vector<std::int32_t> leaves(32, first);
  std::fill(leaves.begin() + 16, leaves.end(), second);
  return trunk_and_leaves("uneven halves", 150, leaves);
}

TEST_F(CudaAcceptance, HalvesOfUnevenLengths) {
  for (const std::int32_t page_size : {8, 12, 16}) {
    expect_tree_matches(uneven_halves(2, 430), 4, page_size, 128);
    expect_tree_matches(uneven_halves(430, 2), 4, page_size, 128);
  }
}

// Returns a draft tree with so many tokens: the parent of each is an earlier token.
std::vector<std::int32_t> draft_tree(std::int32_t tokens, std::int32_t branches) {
  std::vector<std::int32_t> parents{-1};
  for (std::int32_t i = 1; i < tokens; ++i) parents.push_back((i - 1) / branches);
  return parents;
}

// 48 requests over a trunk, each with 1 to 33 tokens of its own: most stages of a tile have slices that end inside a
// page, whose rest is NaN.
PrefixTree short_leaves() {
  std::vector<std::int32_t> leaves;
  for (std::int32_t request = 0; request < 48; ++request) leaves.push_back(1 + request * 7 % 33);
  return trunk_and_leaves("short leaves", 70, leaves);
}

TEST_F(CudaAcceptance, ShortLeaves) {
  for (const std::int32_t page_size : {1, 8, 16, 24, 32}) {
    for (const std::int32_t group : {1, 2}) expect_tree_matches(short_leaves(), group, page_size, 128);
  }
  for (const std::int32_t page_size : {8, 16}) expect_tree_matches(short_leaves(), 2, page_size, 256);
  expect_tree_matches(short_leaves(), 2, 16, 128, DType::kBF16);
  PrefixTree drafts = short_leaves();  // slices with masks by token beside slices without in a stage
  for (std::int32_t request = 0; request < 48; ++request) {
    drafts.drafts.push_back(request % 3 == 0 ? draft_tree(5, 2) : std::vector<std::int32_t>{});
  }
  for (const std::int32_t page_size : {8, 16}) {
    for (const std::int32_t head_dim : {64, 128, 256}) expect_tree_matches(drafts, 2, page_size, head_dim);
  }
}

TEST_F(CudaAcceptance, EmptyRequests) {
  for (const std::int32_t head_dim : {64, 128, 256}) expect_tree_matches(empty_requests(), 4, 16, head_dim);
  expect_tree_matches(PrefixTree{"all empty", {}, {}, {-1, -1}}, 4);
}

TEST_F(CudaAcceptance, DuplicatesOfOneRequest) {
  expect_tree_matches(duplicates(), 8);
}

TEST_F(CudaAcceptance, NoRequestsAtAll) {
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(), 0, 0, 16);
  const Plan plan = make_plan(build_forest(batch), on_cuda(make_shape(2, 4, 64, 16)), cutting_gpu_profile(4), {});
  CudaExecutor executor(RunWay{}.options());
  const DeviceMemory workspace(executor.workspace_bytes(plan));
  executor.upload(plan, batch, workspace.data(), workspace.size(), nullptr);
  executor.resolve({batch.pages, nullptr}, workspace.data(), nullptr);
  EXPECT_NO_THROW(executor.run({}, workspace.data(), nullptr));
  check(cudaDeviceSynchronize());
}

TEST_F(CudaAcceptance, TokenTrees) {
  for (const std::int32_t tokens : {5, 26, 64, 130, 256}) {
    for (const std::int32_t past : {0, 5, 133}) {
      const PrefixTree alone{"alone", {-1}, {past}, {0}, {draft_tree(tokens, 3)}};
      expect_tree_matches(alone, 4, 24);
      expect_tree_matches(alone, 4, 8, 128);
    }
  }
  PrefixTree batch{"over a shared prefix", {-1, 0, 0}, {90, 20, 33}, {0, 1, 2, 2}, {}};
  batch.drafts = {draft_tree(26, 2), {}, draft_tree(64, 4), draft_tree(6, 1)};
  for (const std::int32_t group : {1, 3, 8}) {
    expect_tree_matches(batch, group, 16, 128);
    expect_tree_matches(batch, group, 40, 128);
    expect_tree_matches(batch, group, 16, 256);
  }
}

}  // namespace
}  // namespace trunkline::testing
