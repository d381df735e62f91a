// Pages that are no multiple of 8 tokens: Hopper's kernels copy octets of tokens that lie one behind another by TMA,
// and others row by row. Tables have runs alone, none, or both beside each other.
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "cuda/device_case.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/prefix_tree.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

class CudaCacheRuns : public CudaTest {};

/// Exchanges a share of the pool's ids, so that some runs are interrupted at any token.
PagedBatch with_exchanged_pages(PagedBatch paged, std::mt19937_64& random, double share) {
  const auto pages = static_cast<std::int32_t>(paged.num_pages);
  std::vector<std::int32_t> renamed(static_cast<std::size_t>(pages));
  for (std::int32_t i = 0; i < pages; ++i) renamed[static_cast<std::size_t>(i)] = i;
  for (std::int32_t exchanges = static_cast<std::int32_t>(share * pages / 2); exchanges > 0; --exchanges) {
    std::swap(renamed[static_cast<std::size_t>(uniform(random, 0, pages - 1))],
              renamed[static_cast<std::size_t>(uniform(random, 0, pages - 1))]);
  }
  for (std::int32_t& id : paged.page_ids) {
    if (id >= 0 && id < pages) id = renamed[static_cast<std::size_t>(id)];
  }
  return paged;
}

TEST_F(CudaCacheRuns, RunsThatBeginAndEndAnywhere) {
  std::mt19937_64 random(5);
  const PrefixTree tree = tree_from_levels("1,3,24/531,166,37");
  for (const std::int32_t page_size : {1, 2, 4, 12, 20}) {
    for (const double share : {0.0, 0.03, 0.3, 1.0}) {
      const PagedBatch paged =
          with_exchanged_pages(lay_out_pages(tree, page_size, 3, PageOrder::kConsecutive), random, share);
      const Batch batch = paged.view();
      for (const std::int32_t head_dim : {64, 128, 256}) {
        SCOPED_TRACE(::testing::Message() << "pages of " << page_size << ", share " << share << ", d " << head_dim);
        const AttentionCase test(make_shape(2, 4, head_dim, page_size), batch);
        expect_all_policies_match(test, 16);
      }
    }
  }
}

// Token trees end in slices that are masked by token, whose K is a run and whose V is copied row by row.
TEST_F(CudaCacheRuns, RunsWithMasksByToken) {
  std::mt19937_64 random(6);
  PrefixTree tree = tree_from_levels("1,8/300,70");
  for (std::int32_t request = 0; request < 8; ++request) {
    std::vector<std::int32_t>& parents = tree.drafts.emplace_back();
    for (std::int32_t token = 0; token < 40; ++token) parents.push_back((token - 1) / 2 - (token == 0 ? 1 : 0));
  }
  for (const double share : {0.0, 0.1}) {
    const PagedBatch paged = with_exchanged_pages(lay_out_pages(tree, 1, 4, PageOrder::kConsecutive), random, share);
    for (const std::int32_t head_dim : {64, 128, 256}) {
      const AttentionCase test(make_shape(2, 2, head_dim, 1), paged.view());
      expect_all_policies_match(test, 16);
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
