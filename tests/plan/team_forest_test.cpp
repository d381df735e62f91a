// The forest that a team finds against the host's, on thousands of batches of every kind. The host's team visits work
// in shuffled orders: a result that depended on the order would differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "plan/planned_forest.hpp"
#include "plan/team/team.hpp"
#include "support/brute_forest.hpp"
#include "support/random_batch.hpp"
#include "support/team_batches.hpp"
#include "support/test_scale.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

using testing::PlannedForest;

TEST(TeamForest, EqualsTheHostsForest) {
  ForestBuilder builder;
  PlannedForest planned;
  int told = 0;
  for (int seed = 1; seed <= testing::scaled(6000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto batch = testing::make_team_batch(static_cast<std::uint64_t>(seed), seed % 20 == 0 ? 300 : 24);
    const std::string expected = testing::team_text(builder.build(batch.view()));
    for (const std::uint64_t order :
         {std::uint64_t{0}, std::uint64_t{77}, static_cast<std::uint64_t>(seed) * 1000003}) {
      ASSERT_EQ(testing::to_text(planned.find(testing::team_batch_of(batch.view()), order)), expected);
      ASSERT_FALSE(planned.told_differs());
    }
    ASSERT_EQ(planned.faults().lengths + planned.faults().queries, 0);
    told += planned.are_told() && !batch.kv_lens.empty() ? 1 : 0;
  }
  EXPECT_GT(told, 0);
}

TEST(TeamForest, RealThreadsFindIt) {
  PlannedForest planned;
  for (int seed = 1; seed <= testing::scaled(150); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto batch = testing::make_team_batch(static_cast<std::uint64_t>(seed), 30);
    ASSERT_EQ(testing::to_text(planned.find_by_threads(testing::team_batch_of(batch.view()))),
              testing::team_text(build_forest(batch.view())));
  }
}

// All groups in one place of the table: found by their keys alone.
struct CollidingHash {
  TRUNKLINE_HOST_DEVICE std::uint32_t operator()(std::int32_t, std::int32_t, std::int64_t) const { return 63; }
};

TEST(TeamForest, CollidingHashesCostProbesAlone) {
  PlannedForest planned;
  for (int seed = 1; seed <= testing::scaled(500); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto batch = testing::make_team_batch(static_cast<std::uint64_t>(seed), 60);
    const TeamBatch view = testing::team_batch_of(batch.view());
    ASSERT_EQ(testing::to_text(planned.find<CollidingHash>(view, static_cast<std::uint64_t>(seed))),
              testing::team_text(build_forest(batch.view())));
  }
}

/// Rows of 8 tokens in 2 pages of 4, of which pairs share the first, in a dense table of width 3.
struct SmallTable {
  std::vector<std::int32_t> ids = {1, 2, 90, 1, 3, 91, 4, 5, 92, 4, 6, 93};
  std::vector<std::int32_t> kv_lens = {8, 8, 8, 8};
  std::vector<std::int32_t> query_start;

  Batch view() const {
    Batch batch;
    batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 4, 3, 4);
    batch.kv_lens = kv_lens;
    batch.num_pages = 100;
    return batch;
  }
  TeamBatch team_view() const {
    TeamBatch batch = testing::team_batch_of(view());
    if (!query_start.empty()) batch.query_start = query_start.data();
    batch.max_queries = 10;
    return batch;
  }
};

TEST(TeamForest, LengthsThatDoNotFitCountAsEmpty) {
  PlannedForest planned;
  SmallTable table;
  table.kv_lens = {8, 13, -7, std::numeric_limits<std::int32_t>::max()};
  const std::string found = testing::to_text(planned.find(table.team_view(), 3));
  EXPECT_EQ(planned.faults().lengths, 3);
  EXPECT_EQ(planned.faults().first_length, 1);
  EXPECT_EQ(planned.faults().length, 13);
  table.kv_lens = {8, 0, 0, 0};
  EXPECT_EQ(found, testing::team_text(build_forest(table.view())));
}

TEST(TeamForest, RowsOutsideOfTheTableCountAsEmpty) {
  SmallTable table;
  const std::vector<std::int32_t> row_map = {0, 4, -1, std::numeric_limits<std::int32_t>::max()};
  const std::vector<std::int32_t> indptr = {0, 3, 2, 13, -5};
  PlannedForest planned;
  for (const bool csr : {false, true}) {
    TeamBatch batch = table.team_view();
    (csr ? batch.table.indptr : batch.table.row_map) = csr ? indptr.data() : row_map.data();
    const Forest& forest = planned.find(batch, 9);
    ASSERT_EQ(forest.nodes.size(), 1U);
    EXPECT_EQ(forest.nodes[0].end, 8);
    EXPECT_EQ(planned.faults().lengths, 3);
    EXPECT_EQ(planned.faults().first_length, 1);
  }
}

TEST(TeamForest, WrongQueryStartsLeaveNoQueries) {
  struct Case {
    std::vector<std::int32_t> query_start;
    std::int32_t faults, first, value;
  };
  const Case cases[] = {{{0, 1, 2, 3, 4}, 0, -1, 0},  {{0, 2, 1, 3, 4}, 1, 1, 1},    {{1, 2, 3, 4, 5}, 1, 0, 2},
                        {{0, 1, 2, 3, 11}, 1, 3, 11}, {{0, 9, 10, 10, 10}, 1, 0, 9}, {{0, -1, 2, 3, 4}, 2, 0, -1}};
  PlannedForest planned;
  for (const Case& test : cases) {
    SmallTable table;
    table.query_start = test.query_start;
    const Forest& forest = planned.find(table.team_view(), 4);
    EXPECT_EQ(planned.faults().queries, test.faults);
    EXPECT_EQ(planned.faults().first_queries, test.first);
    EXPECT_EQ(planned.faults().query_start, test.value);
    for (const ForestRequest& request : forest.requests) EXPECT_EQ(request.queries, test.faults == 0 ? 1 : 0);
    EXPECT_EQ(forest.nodes.size(), 6U);
  }
}

TEST(TeamForest, NoRows) {
  PlannedForest planned;
  const Forest& forest = planned.find(TeamBatch(), 1);
  EXPECT_TRUE(forest.nodes.empty());
  EXPECT_EQ(forest.distinct_tokens + forest.total_tokens, 0);
}

TEST(TeamForest, TheGeneratorMakesEveryKindOfBatch) {
  int deep = 0, chains = 0, copies = 0, unshared = 0, padded = 0, nulls = 0, mid_page = 0, inner_ends = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const auto batch = testing::make_team_batch(seed, 24);
    const Forest forest = build_forest(batch.view());
    std::int32_t depth = 0;
    for (std::int32_t node = 0; node < static_cast<std::int32_t>(forest.nodes.size()); ++node) {
      const ForestNode& n = forest.nodes[static_cast<std::size_t>(node)];
      depth = std::max(depth, n.depth);
      mid_page += n.begin % batch.options.page_size != 0;
      copies += forest.ending_at(node).size() > 1;
      inner_ends += forest.ending_at(node).size() > 0 && n.last > node + 1;
    }
    deep += depth >= 3;
    chains += depth >= 12;
    unshared += depth == 0 && forest.nodes.size() > 4;
    padded += !batch.kv_lens.empty() && batch.kv_lens.back() == 0;
    nulls += batch.null_page >= 0;
  }
  for (const int count : {deep, chains, copies, unshared, padded, nulls, mid_page, inner_ends}) EXPECT_GT(count, 20);
}

}  // namespace
}  // namespace trunkline
