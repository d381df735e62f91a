#include "synthetic/paged_batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "trunkline/error.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

using testing::ElementsAre;

// A trunk of 20 tokens; request 0 ends there, 1 and 2 add 30 and 3, requests 3 and 4 both end in one node of 12 more,
// and request 5 is empty.
PrefixTree example() {
  return {"example", {-1, 0, 0, 0, 3}, {20, 30, 3, 12, 0}, {0, 1, 2, 3, 4, -1}};
}

// Requests 0 and 1 draft on top of the trunk and of node 1; 5 has nothing but a draft.
PrefixTree drafting_example() {
  PrefixTree tree = example();
  tree.drafts = {{-1, 0, 0, 1, 1}, {-1, 0}, {}, {}, {}, {-1}};
  return tree;
}

std::vector<std::int32_t> row_pages(const PagedBatch& batch, std::int32_t row) {
  const auto begin = batch.page_ids.begin() + row * batch.width;
  const std::int32_t pages = (batch.kv_lens[static_cast<std::size_t>(row)] + batch.page_size - 1) / batch.page_size;
  return {begin, begin + pages};
}

TEST(LayOutPages, SharesPagesWhoseTokensAreSharedInFull) {
  const PagedBatch batch = lay_out_pages(example(), 16, 1);
  EXPECT_THAT(batch.kv_lens, ElementsAre(20, 50, 23, 32, 32, 0));
  EXPECT_EQ(batch.width, 4);
  std::set<std::int32_t> second;
  for (std::int32_t row = 0; row < 5; ++row) {
    EXPECT_EQ(row_pages(batch, row)[0], row_pages(batch, 0)[0]) << row;
    second.insert(row_pages(batch, row)[1]);
  }
  EXPECT_EQ(second.size(), 4u)
      << "the page in which the trunk ends is private to each child and to the request that ends";
  EXPECT_EQ(row_pages(batch, 3), row_pages(batch, 4)) << "requests that end in the same node share all pages";
}

TEST(LayOutPages, DistinctTokensAreTheTreesAtPageSizeOne) {
  const PrefixTree tree = example();
  const PagedBatch batch = lay_out_pages(tree, 1, 1);
  const Forest forest = build_forest(batch.view(), IdCheck::kAllPages);
  EXPECT_EQ(forest.distinct_tokens, 20 + 30 + 3 + 12);
  EXPECT_EQ(forest.total_tokens, 20 + 50 + 23 + 32 + 32);
}

TEST(LayOutPages, DrawsDifferentIdsInThePoolAndGarbagePastTheEnd) {
  const PagedBatch batch = lay_out_pages(example(), 4, 7);
  std::set<std::int32_t> used;
  for (std::int32_t row = 0; row < 6; ++row) {
    const std::vector<std::int32_t> pages = row_pages(batch, row);
    used.insert(pages.begin(), pages.end());
    for (std::int64_t at = static_cast<std::int64_t>(pages.size()); at < batch.width; ++at) {
      EXPECT_GE(batch.page_ids[static_cast<std::size_t>(row * batch.width + at)], batch.num_pages);
    }
  }
  EXPECT_GE(*used.begin(), 0);
  EXPECT_LT(*used.rbegin(), batch.num_pages);
  EXPECT_GT(batch.num_pages, static_cast<std::int64_t>(used.size())) << "some pages stay unused";
  // 5 full pages of the trunk; 8 of node 1 with its tail; 1; 3
  EXPECT_EQ(used.size(), 5u + 8u + 1u + 3u);
}

TEST(LayOutPages, TheSeedAloneDecidesTheIds) {
  EXPECT_EQ(lay_out_pages(example(), 16, 3).page_ids, lay_out_pages(example(), 16, 3).page_ids);
  EXPECT_NE(lay_out_pages(example(), 1, 3).page_ids, lay_out_pages(example(), 1, 4).page_ids);
}

TEST(LayOutPages, ConsecutivePagesFollowTheNodes) {
  const PagedBatch batch = lay_out_pages(example(), 16, 1, PageOrder::kConsecutive);
  EXPECT_THAT(row_pages(batch, 0), ElementsAre(0, 1));
  EXPECT_THAT(row_pages(batch, 1), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(row_pages(batch, 2), ElementsAre(0, 5));
  EXPECT_THAT(row_pages(batch, 3), ElementsAre(0, 6));
  EXPECT_EQ(lay_out_pages(example(), 16, 2, PageOrder::kConsecutive).page_ids, batch.page_ids) << "whatever the seed";
}

TEST(LayOutPages, SizeIsKnownWithoutLayingOut) {
  for (const std::int32_t page_size : {1, 3, 16, 24, 128}) {
    const PagedBatch batch = lay_out_pages(example(), page_size, 1);
    const PagedBatchSize size = paged_batch_size(example(), page_size);
    EXPECT_EQ(size.rows, 6);
    EXPECT_EQ(size.width, batch.width);
    EXPECT_EQ(size.num_pages, batch.num_pages);
    EXPECT_EQ(size.queries, 6);
    const PagedBatch drafting = lay_out_pages(drafting_example(), page_size, 1);
    const PagedBatchSize drafting_size = paged_batch_size(drafting_example(), page_size);
    EXPECT_EQ(drafting_size.width, drafting.width);
    EXPECT_EQ(drafting_size.num_pages, drafting.num_pages);
    EXPECT_EQ(drafting_size.queries, drafting.view().total_queries());
  }
}

TEST(LayOutPages, DraftsLieInPagesOfTheirOwn) {
  const PagedBatch plain = lay_out_pages(example(), 16, 1);
  const PagedBatch batch = lay_out_pages(drafting_example(), 16, 1);
  EXPECT_THAT(batch.kv_lens, ElementsAre(25, 52, 23, 32, 32, 1));
  EXPECT_THAT(batch.query_start, ElementsAre(0, 5, 7, 8, 9, 10, 11));
  EXPECT_THAT(batch.query_parents, ElementsAre(-1, 0, 0, 1, 1, -1, 0, -1, -1, -1, -1));
  EXPECT_TRUE(plain.query_start.empty());
  // The first page is the trunk's; the second, where the trunk ends, is request 0's copy, like each child's.
  std::set<std::int32_t> second;
  for (const std::int32_t row : {0, 1, 2, 3}) {
    EXPECT_EQ(row_pages(batch, row)[0], row_pages(batch, 0)[0]);
    second.insert(row_pages(batch, row)[1]);
  }
  EXPECT_EQ(second.size(), 4u);
  EXPECT_EQ(row_pages(batch, 1).size(), 4u);
  const Forest forest = build_forest(batch.view(), IdCheck::kAllPages);
  EXPECT_TRUE(forest.requests[0].tree);
  EXPECT_FALSE(forest.requests[1].tree) << "a chain";
  EXPECT_EQ(forest.requests[5].kv_len, 1);
}

TEST(LayOutPages, RequestsThatEndTogetherDraftApart) {
  PrefixTree tree = example();
  tree.drafts = {{}, {}, {}, {-1, 0, 0}, {-1, 0, 0}, {}};
  for (const std::int32_t page_size : {1, 16, 24}) {
    const PagedBatch batch = lay_out_pages(tree, page_size, 1);
    EXPECT_NE(row_pages(batch, 3).back(), row_pages(batch, 4).back());
    const Forest forest = build_forest(batch.view(), IdCheck::kAllPages);
    // Node 3 ends after 32 tokens: at 24 tokens a page, the 8 tokens in the page that drafts go on in are copies.
    EXPECT_EQ(forest.nodes[static_cast<std::size_t>(forest.requests[3].node)].tokens(), page_size == 24 ? 11 : 3);
  }
}

TEST(CompactCopy, NumbersPagesAnewAndKeepsWhatIsShared) {
  const PagedBatch paged = lay_out_pages(example(), 16, 3);
  PagedBatch large = paged;  // as a large pool has it: ids far apart
  for (std::int32_t& id : large.page_ids) {
    if (id < paged.num_pages) id = 1000 * id + 7;
  }
  large.num_pages = 1000 * paged.num_pages + 8;
  const PagedBatch copy = compact_copy(large.view());
  EXPECT_LE(copy.num_pages, paged.num_pages);
  EXPECT_EQ(copy.kv_lens, paged.kv_lens);
  const Forest want = build_forest(paged.view(), IdCheck::kAllPages);
  const Forest have = build_forest(copy.view(), IdCheck::kAllPages);
  EXPECT_EQ(have.order, want.order);
  EXPECT_EQ(have.nodes.size(), want.nodes.size());
  EXPECT_EQ(have.distinct_tokens, want.distinct_tokens);
  EXPECT_EQ(have.total_tokens, want.total_tokens);
  large.num_pages = 5;
  EXPECT_THROW(compact_copy(large.view()), Error);
}

TEST(LayOutPages, NamesWhatIsWrong) {
  PrefixTree tree = example();
  tree.end_node[2] = 9;
  try {
    lay_out_pages(tree, 16, 1);
    FAIL() << "an end node out of range was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "end_node[2] is 9; the tree has 5 nodes");
  }
  EXPECT_THROW(lay_out_pages(example(), 0, 1), Error);
  tree = example();
  tree.drafts = {{-1}};
  try {
    lay_out_pages(tree, 16, 1);
    FAIL() << "drafts for one request of six were accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "drafts has 1 entries; it must have one for each of the 6 requests, or none");
  }
}

}  // namespace
}  // namespace trunkline
