// The forest that a device finds is the host's, on thousands of batches of every kind.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "plan/device/device_batches.hpp"
#include "plan/device/device_steps.hpp"
#include "support/planner_batches.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"

namespace trunkline {
namespace {

using testing::device_batch_of;
using testing::ForestSteps;
using testing::HostThreads;
using testing::RandomBatch;
using testing::text_without_slots;
using testing::uniform;

constexpr std::int32_t kQueries = 4096;

TEST(DeviceForest, EqualsTheHostsForest) {
  ForestBuilder builder;
  ForestSteps steps(310, kQueries);
  for (int seed = 1; seed <= testing::scaled(6000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto batch = testing::make_planner_batch(static_cast<std::uint64_t>(seed), seed % 20 == 0 ? 300 : 24);
    const std::string expected = text_without_slots(builder.build(batch.view()));
    const DeviceBatch device = device_batch_of(batch.view());
    // The second time all is compared with the rows of another batch; the third with its own.
    for (const std::uint64_t order :
         {std::uint64_t{0}, std::uint64_t{77}, static_cast<std::uint64_t>(seed) * 1000003}) {
      const HostThreads threads{order};
      EXPECT_EQ(steps.compare(device, threads), order > 77 && seed % 2 == 0);
      ASSERT_EQ(text_without_slots(steps.find(device, seed % 2 == 0 ? 0 : -1, threads)), expected);
      steps.step().growth = std::numeric_limits<std::int32_t>::max();
      if (order == 0) steps.step().rows = -1;
    }
    ASSERT_EQ(steps.faults().lengths + steps.faults().queries, 0);
  }
}

TEST(DeviceForest, DraftTreesAreShared) {
  ForestBuilder builder;
  ForestSteps steps(64, kQueries);
  for (int seed = 1; seed <= testing::scaled(3000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    testing::RandomBatchOptions options;
    options.max_rows = uniform(random, 1, 40);
    options.page_size = uniform(random, 0, 1) == 0 ? 1 : 16;
    options.max_queries = uniform(random, 1, 20);
    options.trees = true;
    const RandomBatch batch = testing::make_random_batch(random, options);
    const DeviceBatch device = device_batch_of(batch.view());
    EXPECT_FALSE(steps.compare(device));
    ASSERT_EQ(text_without_slots(steps.find(device, 0)), text_without_slots(builder.build(batch.view())));
    ASSERT_TRUE(steps.compare(device, {random()}));
    steps.step().rows = -1;
  }
}

TEST(DeviceForest, RealThreadsFindIt) {
  ForestSteps steps(40, kQueries);
  for (int seed = 1; seed <= testing::scaled(20); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto batch = testing::make_planner_batch(static_cast<std::uint64_t>(seed), 30);
    const DeviceBatch device = device_batch_of(batch.view());
    steps.compare(device, {0, 3});
    ASSERT_EQ(text_without_slots(steps.find(device, 0, {0, 3})), text_without_slots(build_forest(batch.view())));
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
  DeviceBatch device_view() const {
    DeviceBatch batch = device_batch_of(view());
    if (!query_start.empty()) batch.query_start = query_start.data();
    batch.max_queries = 10;
    return batch;
  }
};

Forest found(ForestSteps& steps, const DeviceBatch& batch) {
  steps.compare(batch);
  return steps.find(batch);
}

TEST(DeviceForest, LengthsThatDoNotFitCountAsEmpty) {
  ForestSteps steps(4, 10);
  SmallTable table;
  table.kv_lens = {8, 13, -7, std::numeric_limits<std::int32_t>::max()};
  const std::string text = text_without_slots(found(steps, table.device_view()));
  EXPECT_EQ(steps.faults().lengths, 3);
  EXPECT_EQ(steps.faults().first_length, 1);
  EXPECT_EQ(steps.faults().length, 13);
  table.kv_lens = {8, 0, 0, 0};
  EXPECT_EQ(text, text_without_slots(build_forest(table.view())));
}

TEST(DeviceForest, RowsOutsideOfTheTableCountAsEmpty) {
  SmallTable table;
  const std::vector<std::int32_t> row_map = {0, 4, -1, std::numeric_limits<std::int32_t>::max()};
  const std::vector<std::int32_t> indptr = {0, 3, 2, 13, -5};
  ForestSteps steps(4, 10);
  for (const bool csr : {false, true}) {
    DeviceBatch batch = table.device_view();
    (csr ? batch.table.indptr : batch.table.row_map) = csr ? indptr.data() : row_map.data();
    const Forest forest = found(steps, batch);
    ASSERT_EQ(forest.nodes.size(), 1U);
    EXPECT_EQ(forest.nodes[0].end, 8);
    EXPECT_EQ(steps.faults().lengths, 3);
    EXPECT_EQ(steps.faults().first_length, 1);
  }
}

TEST(DeviceForest, WrongQueryStartsLeaveNoQueries) {
  struct Case {
    std::vector<std::int32_t> query_start;
    std::int32_t faults, first, value;
  };
  const Case cases[] = {{{0, 1, 2, 3, 4}, 0, -1, 0},  {{0, 2, 1, 3, 4}, 1, 1, 1},    {{1, 2, 3, 4, 5}, 1, 0, 2},
                        {{0, 1, 2, 3, 11}, 1, 3, 11}, {{0, 9, 10, 10, 10}, 1, 0, 9}, {{0, -1, 2, 3, 4}, 2, 0, -1}};
  ForestSteps steps(4, 10);
  for (const Case& test : cases) {
    SmallTable table;
    table.query_start = test.query_start;
    const Forest forest = found(steps, table.device_view());
    EXPECT_EQ(steps.faults().queries, test.faults);
    EXPECT_EQ(steps.faults().first_queries, test.first);
    EXPECT_EQ(steps.faults().query_start, test.value);
    for (const ForestRequest& request : forest.requests) EXPECT_EQ(request.queries, test.faults == 0 ? 1 : 0);
    EXPECT_EQ(forest.nodes.size(), 6U);
  }
}

TEST(DeviceForest, ParentsThatAreNoEarlierTokenLeaveNoQueries) {
  ForestSteps steps(4, 10);
  for (const std::int32_t parent : {-2, -1, 2, 3, 1 << 30}) {
    SmallTable table;
    table.query_start = {0, 3, 4, 5, 6};
    const std::vector<std::int32_t> parents = {-1, 0, parent, -1, -1, -1};
    DeviceBatch batch = table.device_view();
    batch.query_parents = parents.data();
    const Forest forest = found(steps, batch);
    EXPECT_EQ(steps.faults().queries, 1);
    EXPECT_EQ(steps.faults().first_queries, 0);
    for (const ForestRequest& request : forest.requests) EXPECT_EQ(request.queries, 0);
  }
}

TEST(DeviceForest, NoRows) {
  ForestSteps steps(1, 1);
  const Forest forest = found(steps, DeviceBatch());
  EXPECT_TRUE(forest.nodes.empty());
  EXPECT_EQ(forest.distinct_tokens + forest.total_tokens, 0);
}

}  // namespace
}  // namespace trunkline
