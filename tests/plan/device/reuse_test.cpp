// Plan reuse on a device: the plan is reused exactly if the forest of the step's tables and lengths is the planned one,
// apart from the ends of nodes with a single row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "plan/device/device_batches.hpp"
#include "plan/device/device_steps.hpp"
#include "support/planner_batches.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

using testing::device_batch_of;
using testing::ForestSteps;
using testing::RandomBatch;
using testing::uniform;

constexpr std::int32_t kGrowth = 40;
constexpr std::int32_t kQueries = 4096;

bool is_private(const Forest& forest, std::int32_t node) {
  return node >= 0 && forest.nodes[static_cast<std::size_t>(node)].requests.size() == 1;
}

/// The forest without the ends of private nodes, and the bounds of lengths.
std::string form_of(Forest forest) {
  for (ForestNode& node : forest.nodes) {
    if (node.requests.size() == 1) node.end = 0;
  }
  for (ForestRequest& request : forest.requests) {
    if (is_private(forest, request.node)) request.kv_len = 0;
  }
  forest.total_tokens = 0;
  forest.distinct_tokens = 0;
  return testing::text_without_slots(forest);
}

void set_length(RandomBatch& batch, std::size_t row, std::int32_t length) {
  const auto pages = static_cast<std::size_t>((length + batch.options.page_size - 1) / batch.options.page_size);
  batch.kv_lens[row] = length;
  while (batch.row_pages[row].size() < pages) batch.row_pages[row].push_back(batch.num_pages++);
  batch.row_pages[row].resize(pages);
}

/// A step of one kind: all rows that may grow do; or something else happens to a row.
void change(std::mt19937_64& random, const Forest& forest, RandomBatch& batch) {
  const auto rows = static_cast<std::int32_t>(batch.kv_lens.size());
  const auto row = static_cast<std::size_t>(uniform(random, 0, rows - 1));
  auto& pages = batch.row_pages[row];
  switch (uniform(random, 0, 6)) {
    case 0:
      for (std::size_t r = 0; r < batch.kv_lens.size(); ++r) {
        if (is_private(forest, forest.requests[r].node))
          set_length(batch, r, batch.kv_lens[r] + uniform(random, 0, 20));
      }
      break;
    case 1: set_length(batch, row, batch.kv_lens[row] + uniform(random, 0, 50)); break;
    case 2: set_length(batch, row, std::max(0, batch.kv_lens[row] - uniform(random, 0, 3))); break;
    case 3:  // another page
      if (!pages.empty())
        pages[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(pages.size()) - 1))] =
            batch.num_pages++;
      break;
    case 4: {  // the pages of another row
      const auto other = static_cast<std::size_t>(uniform(random, 0, rows - 1));
      std::copy_n(batch.row_pages[other].begin(), std::min(pages.size(), batch.row_pages[other].size()), pages.begin());
      break;
    }
    case 5: {  // two rows are swapped
      const auto other = static_cast<std::size_t>(uniform(random, 0, rows - 1));
      std::swap(pages, batch.row_pages[other]);
      std::swap(batch.kv_lens[row], batch.kv_lens[other]);
      break;
    }
    default: break;
  }
}

/// Whether the page that each row goes on with, after what it shares with earlier rows, is the one that it was; the
/// first page of a request that takes another's row is not.
bool goes_on_alike(const Forest& forest, const RandomBatch& before, const RandomBatch& after) {
  for (std::size_t row = 0; row < before.kv_lens.size(); ++row) {
    std::int32_t node = forest.requests[row].node;
    if (node < 0 || forest.nodes[static_cast<std::size_t>(node)].row != static_cast<std::int32_t>(row)) continue;
    for (std::int32_t above = node;
         above >= 0 && forest.nodes[static_cast<std::size_t>(above)].row == static_cast<std::int32_t>(row);
         above = forest.nodes[static_cast<std::size_t>(above)].parent) {
      node = above;
    }
    const auto page =
        static_cast<std::size_t>(forest.nodes[static_cast<std::size_t>(node)].begin / before.options.page_size);
    if (before.row_pages[row][page] != after.row_pages[row][page]) return false;
  }
  return true;
}

bool within_bounds(const Forest& forest, const RandomBatch& before, const RandomBatch& after) {
  for (std::size_t row = 0; row < before.kv_lens.size(); ++row) {
    const std::int32_t growth = after.kv_lens[row] - before.kv_lens[row];
    if (growth < 0 || growth > (is_private(forest, forest.requests[row].node) ? kGrowth : 0)) return false;
  }
  return true;
}

/// Plans a batch. \return the steps that know it
ForestSteps planned(const RandomBatch& batch) {
  ForestSteps steps(64, kQueries);
  steps.compare(device_batch_of(batch.view()));
  steps.find(device_batch_of(batch.view()), kGrowth);
  return steps;
}

TEST(PlanReuse, ReusesAPlanExactlyWhenTheForestKeepsItsForm) {
  int reused = 0, dropped = 0, grown = 0;
  for (int seed = 1; seed <= testing::scaled(8000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatch before = testing::make_planner_batch(static_cast<std::uint64_t>(seed), 20);
    before.num_pages = std::int64_t{1} << 30;
    ForestSteps steps = planned(before);
    const Forest forest = build_forest(before.view());
    RandomBatch after = before;
    for (int changes = uniform(random, 1, 2); changes > 0; --changes) change(random, forest, after);
    after.lay_out_table();
    const Batch unqueried = [&] {
      Batch batch = after.view();
      batch.query_start = {};
      return batch;
    }();
    Batch unqueried_before = before.view();
    unqueried_before.query_start = {};
    const bool same_form = form_of(build_forest(unqueried)) == form_of(build_forest(unqueried_before));
    const bool expected = same_form && within_bounds(forest, before, after) && goes_on_alike(forest, before, after);
    ASSERT_EQ(steps.compare(device_batch_of(after.view()), {static_cast<std::uint64_t>(seed) * 31}), expected);
    (expected ? reused : dropped) += 1;
    grown += expected && before.kv_lens != after.kv_lens;
  }
  EXPECT_GT(reused, testing::scaled(1500));
  EXPECT_GT(dropped, testing::scaled(1500));
  EXPECT_GT(grown, testing::scaled(500));
}

TEST(PlanReuse, RowsGrowNoFurtherThanThePlanAllows) {
  RandomBatch random = testing::make_planner_batch(3, 20);
  random.query_start.clear();
  ForestSteps steps = planned(random);
  const Forest forest = build_forest(random.view());
  for (std::size_t row = 0; row < random.kv_lens.size(); ++row) {
    if (is_private(forest, forest.requests[row].node)) set_length(random, row, random.kv_lens[row] + 5);
  }
  random.lay_out_table();
  EXPECT_TRUE(steps.compare(device_batch_of(random.view())));
  steps.step().growth = 5;
  EXPECT_TRUE(steps.compare(device_batch_of(random.view())));
  steps.step().growth = 4;
  EXPECT_FALSE(steps.compare(device_batch_of(random.view())));
}

TEST(PlanReuse, OtherRowsQueriesAndFaultsArePlannedAnew) {
  RandomBatch random = testing::make_planner_batch(3, 20);
  random.query_start.clear();
  const DeviceBatch batch = device_batch_of(random.view());
  ForestSteps steps(64, kQueries);
  EXPECT_FALSE(steps.compare(batch)) << "nothing was planned";
  steps.find(batch, kGrowth);
  EXPECT_TRUE(steps.compare(batch));

  DeviceBatch fewer = batch;
  --fewer.rows;
  EXPECT_FALSE(steps.compare(fewer));
  fewer.rows = 0;
  EXPECT_FALSE(steps.compare(fewer));

  std::vector<std::int32_t> query_start;
  for (std::int32_t i = 0; i <= batch.rows; ++i) query_start.push_back(i);
  DeviceBatch queried = batch;
  queried.query_start = query_start.data();
  queried.max_queries = batch.rows + 1;
  EXPECT_TRUE(steps.compare(queried)) << "one query a row, as it was";
  ++query_start.back();
  EXPECT_FALSE(steps.compare(queried));
  for (std::int32_t& start : query_start) ++start;
  --query_start.back();
  EXPECT_FALSE(steps.compare(queried)) << "begins past 0";

  std::vector<std::int32_t> kv_lens = random.kv_lens;
  kv_lens[0] = -1;
  DeviceBatch faulty = batch;
  faulty.kv_lens = kv_lens.data();
  EXPECT_FALSE(steps.compare(faulty));
  steps.find(faulty, kGrowth);
  EXPECT_FALSE(steps.compare(faulty)) << "faults are counted at every step";
}

TEST(PlanReuse, OfDraftTreesThatAreOthers) {
  for (int seed = 1; seed <= testing::scaled(300); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    testing::RandomBatchOptions options;
    options.max_queries = 12;
    options.trees = true;
    RandomBatch batch = testing::make_random_batch(random, options);
    ForestSteps steps = planned(batch);
    EXPECT_TRUE(steps.compare(device_batch_of(batch.view())));
    // A token of a tree hangs on another.
    const Batch view = batch.view();
    for (std::int32_t row = 0; row < view.rows(); ++row) {
      const std::int32_t begin = view.query_begin(row);
      const std::int32_t count = view.query_begin(row + 1) - begin;
      if (count < 3) continue;
      std::int32_t& parent = batch.query_parents[static_cast<std::size_t>(begin) + 2];
      parent = 1 - parent;
      EXPECT_FALSE(steps.compare(device_batch_of(batch.view())));
      parent = 1 - parent;
    }
  }
}

}  // namespace
}  // namespace trunkline
