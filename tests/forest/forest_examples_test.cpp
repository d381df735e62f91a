// Forests worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "support/brute_forest.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

using ::testing::ElementsAre;

/// Rows of pages as a dense table; each test says which forest they are.
Forest forest_of(const std::vector<std::vector<std::int32_t>>& rows, const std::vector<std::int32_t>& kv_lens,
                 std::int32_t page_size, std::int64_t null_page = -1) {
  constexpr std::size_t kWidth = 8;
  std::vector<std::int32_t> ids;
  for (const auto& row : rows) {
    ids.insert(ids.end(), row.begin(), row.end());
    ids.insert(ids.end(), kWidth - row.size(), 1'000'000'000);
  }
  Batch batch;
  batch.pages =
      PageTable::dense(std::span<const std::int32_t>(ids), static_cast<std::int32_t>(rows.size()), kWidth, page_size);
  batch.kv_lens = kv_lens;
  batch.null_page = null_page;
  return build_forest(batch);
}

/// [begin, end) of each node, beside its parent.
std::vector<std::vector<std::int32_t>> outline(const Forest& forest) {
  std::vector<std::vector<std::int32_t>> lines;
  for (const ForestNode& node : forest.nodes) lines.push_back({node.parent, node.begin, node.end});
  return lines;
}

// Requests A, B, C, D all share 32 tokens; A, B, C share 64 more; then A has 10, B 26, C 0 and D 48 tokens of its own.
TEST(ForestExamples, FourRequestsOnTwoTrunks) {
  const Forest forest = forest_of({{3, 9, 4, 1, 5, 2, 6},     // A: 2 pages of all, 4 of A, B and C, 1 of its own
                                   {3, 9, 4, 1, 5, 2, 7, 8},  // B
                                   {3, 9, 4, 1, 5, 2},        // C
                                   {3, 9, 10, 11, 12}},       // D
                                  {32 + 64 + 10, 32 + 64 + 26, 32 + 64, 32 + 48}, 16);
  EXPECT_EQ(testing::to_text(forest),
            "tokens 404, distinct 180\n"
            "node 0: parent -1, tokens [0, 32), row 0, requests [0, 4), last 5, depth 0\n"
            "node 1: parent 0, tokens [32, 96), row 0, requests [0, 3), last 4, depth 1\n"
            "node 2: parent 1, tokens [96, 106), row 0, requests [1, 2), last 3, depth 2\n"
            "node 3: parent 1, tokens [96, 122), row 1, requests [2, 3), last 4, depth 2\n"
            "node 4: parent 0, tokens [32, 80), row 3, requests [3, 4), last 5, depth 1\n"
            "order 2 0 1 3\n"
            "request 0: slot 0.0, length 106, queries 0 + 1, node 2\n"
            "request 1: slot 1.0, length 122, queries 1 + 1, node 3\n"
            "request 2: slot 2.0, length 96, queries 2 + 1, node 1\n"
            "request 3: slot 3.0, length 80, queries 3 + 1, node 4\n");
  EXPECT_EQ(forest.ending_at(0), (Range{0, 0}));
  EXPECT_EQ(forest.ending_at(1), (Range{0, 1}));
  EXPECT_EQ(forest.ending_at(4), (Range{3, 4}));
}

TEST(ForestExamples, ARequestEndsInsideAPage) {
  // Row 1 ends 4 tokens into the page that row 0 fills and row 2 leaves at 12.
  const Forest forest = forest_of({{5, 6, 7}, {5, 6}, {5, 6}}, {40, 20, 28}, 16);
  EXPECT_THAT(outline(forest), ElementsAre(ElementsAre(-1, 0, 20), ElementsAre(0, 20, 28), ElementsAre(1, 28, 40)));
  EXPECT_THAT(forest.order, ElementsAre(1, 2, 0));
}

TEST(ForestExamples, APageIsSharedOnlyAfterEqualPages) {
  // Both hold page 9 second, but after different first pages.
  const Forest forest = forest_of({{1, 9}, {2, 9}}, {32, 32}, 16);
  EXPECT_THAT(outline(forest), ElementsAre(ElementsAre(-1, 0, 32), ElementsAre(-1, 0, 32)));
  EXPECT_EQ(forest.distinct_tokens, 64);
}

TEST(ForestExamples, DuplicatesEndTogetherAndEmptyRequestsComeLast) {
  const Forest forest = forest_of({{}, {1, 2}, {}, {1, 2}, {1, 2}}, {0, 20, 0, 20, 20}, 16);
  EXPECT_THAT(outline(forest), ElementsAre(ElementsAre(-1, 0, 20)));
  EXPECT_THAT(forest.order, ElementsAre(1, 3, 4, 0, 2));
  EXPECT_EQ(forest.requests[0].node, -1);
  EXPECT_EQ(forest.ending_at(0).size(), 3);
}

TEST(ForestExamples, ANullPageIsNeverShared) {
  // Page 0 stands for none. Rows 0 and 1 are equal, and share only what comes before it.
  const Forest forest = forest_of({{4, 0, 5}, {4, 0, 5}, {0, 4}, {0, 4}}, {48, 48, 32, 32}, 16, 0);
  EXPECT_THAT(outline(forest), ElementsAre(ElementsAre(-1, 0, 16), ElementsAre(0, 16, 48), ElementsAre(0, 16, 48),
                                           ElementsAre(-1, 0, 32), ElementsAre(-1, 0, 32)));
  // Without a null page they are duplicates.
  EXPECT_EQ(forest_of({{4, 0, 5}, {4, 0, 5}, {0, 4}, {0, 4}}, {48, 48, 32, 32}, 16).nodes.size(), 2u);
}

TEST(ForestExamples, DraftTreesAreNeverShared) {
  // Three rows of the same 32 tokens; the last 4 of rows 0 and 1 are draft trees, whoever else reads their pages.
  const std::vector<std::int32_t> ids = {7, 8, 7, 8, 7, 8};
  const std::vector<std::int32_t> kv_lens = {32, 32, 32};
  const std::vector<std::int32_t> query_start = {0, 4, 8, 9};
  const std::vector<std::int32_t> parents = {-1, 0, 0, 1, -1, 0, 1, 1, -1};
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 3, 2, 16);
  batch.kv_lens = kv_lens;
  batch.query_start = query_start;
  batch.query_parents = parents;
  const Forest forest = build_forest(batch);
  EXPECT_THAT(outline(forest), ElementsAre(ElementsAre(-1, 0, 28), ElementsAre(0, 28, 32), ElementsAre(0, 28, 32),
                                           ElementsAre(0, 28, 32)));
  EXPECT_TRUE(forest.requests[1].tree);
  EXPECT_FALSE(forest.requests[2].tree);
  EXPECT_EQ(forest.query_parents, parents);
  // A chain is an ordinary row, and no row of a batch without trees costs anything.
  const std::vector<std::int32_t> chains = {-1, 0, 1, 2, -1, 0, 1, 2, -1};
  batch.query_parents = chains;
  EXPECT_EQ(build_forest(batch).nodes.size(), 1u);
  EXPECT_TRUE(build_forest(batch).query_parents.empty());
}

TEST(ForestExamples, ChildrenComeInTheOrderOfTheirFirstRow) {
  // Row 3 splits the node of row 0 from below; row 2 is a second child of the trunk, before row 4's in the batch.
  const Forest forest = forest_of({{1, 2, 3}, {9}, {1, 7}, {1, 2, 4}, {1, 8}}, {3, 1, 2, 3, 2}, 1);
  EXPECT_THAT(forest.order, ElementsAre(0, 3, 2, 4, 1));
  EXPECT_THAT(outline(forest),
              ElementsAre(ElementsAre(-1, 0, 1), ElementsAre(0, 1, 2), ElementsAre(1, 2, 3), ElementsAre(1, 2, 3),
                          ElementsAre(0, 1, 2), ElementsAre(0, 1, 2), ElementsAre(-1, 0, 1)));
}

TEST(ForestExamples, PagesMayEndPastWhatALengthCanBe) {
  // All but the third end inside the second page, which would end at 2^31; no third page is read. The last comes after
  // a stranger, so that it is looked for from the root.
  constexpr std::int32_t kPage = 1 << 30;
  const Forest forest =
      forest_of({{1, 2, 4}, {1, 2, 5}, {9}, {1, 2, 6}}, {kPage + 10, kPage + 20, 1, kPage + 30}, kPage);
  EXPECT_THAT(outline(forest), ElementsAre(ElementsAre(-1, 0, kPage + 10), ElementsAre(0, kPage + 10, kPage + 20),
                                           ElementsAre(1, kPage + 20, kPage + 30), ElementsAre(-1, 0, 1)));
}

TEST(ForestExamples, LongRunsDifferAtAnyPlace) {
  // Comparison works in blocks; each length and each place of the first difference must be found.
  constexpr std::int32_t kPages = 150;
  for (std::int32_t differ = 0; differ <= kPages; ++differ) {
    std::vector<std::int64_t> ids(2 * kPages);
    for (std::size_t i = 0; i < kPages; ++i) ids[i] = ids[kPages + i] = static_cast<std::int64_t>(i);
    if (differ < kPages) ids[kPages + static_cast<std::size_t>(differ)] += std::int64_t{1} << 32;
    const std::vector<std::int32_t> kv_lens = {kPages * 3, kPages * 3};
    Batch batch;
    batch.pages = PageTable::dense(std::span<const std::int64_t>(ids), 2, kPages, 3);
    batch.kv_lens = kv_lens;
    EXPECT_EQ(build_forest(batch).distinct_tokens, 2 * kPages * 3 - differ * 3);
    batch.null_page = 75;
    EXPECT_EQ(build_forest(batch).distinct_tokens, 2 * kPages * 3 - std::min(differ, 75) * 3);
  }
}

}  // namespace
}  // namespace trunkline
