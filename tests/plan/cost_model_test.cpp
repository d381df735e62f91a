#include "plan/cost_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "base/check.hpp"
#include "plan/cost_classes.hpp"
#include "plan/test_cases.hpp"
#include "support/random_batch.hpp"

namespace trunkline {
namespace {

/// Longest first onto the least loaded of the workers, task by task.
Nanoseconds listed_makespan(std::vector<Nanoseconds> costs, std::size_t workers, int copies) {
  std::sort(costs.rbegin(), costs.rend());
  std::vector<Nanoseconds> loads(workers, 0);
  for (const Nanoseconds cost : costs) {
    for (int copy = 0; copy < copies; ++copy) *std::min_element(loads.begin(), loads.end()) += cost;
  }
  return *std::max_element(loads.begin(), loads.end());
}

Pack pack_of(std::int32_t queries) {
  Pack pack;
  pack.queries = queries;
  return pack;
}

TEST(CostModel, ATaskCostsTheLongerOfMemoryAndComputeAndWhatIsExposed) {
  MachineProfile profile = testing::memory_only_profile(2);  // 1 us a token and head for each of two workers
  profile.flops_per_us = 2 * 512;                            // a row and token, 4 x 128 FLOPs, takes 1 us
  profile.flop_efficiency = 0.5;                             // 2 us
  profile.memory_overlap = 0.75;
  profile.item_us = 7;
  profile.partial_us_per_kib = 3;
  CostModel costs;
  costs.reset(profile, testing::shape_of(8, 8));
  // 10 tokens: memory 10 us; 1 row computes 20 us; a quarter of the shorter is exposed.
  EXPECT_EQ(costs.task(10, 10, 1, 0), 20'000 + 2'500 + 7'000);
  // 9 rows are padded to 16. A partial has 129 floats: 516 bytes at 3 us a KiB.
  EXPECT_EQ(costs.task(10, 10, 16, 2), 320'000 + 2'500 + 7'000 + 2 * 516 * 3'000 / 1024);
  EXPECT_EQ(costs.rows(pack_of(8)), 8);
  EXPECT_EQ(costs.rows(pack_of(9)), 16);
}

TEST(CostModel, LeastTimeIsThatOfReadingOnAllWorkers) {
  MachineProfile profile = testing::memory_only_profile(2);
  CostModel costs;
  costs.reset(profile, testing::shape_of(8, 8));
  EXPECT_EQ(costs.min_time(1000), 5'000);  // without a fixed cost an item, rounding could go below any bound
  profile.item_us = 1;
  costs.reset(profile, testing::shape_of(8, 8));
  EXPECT_EQ(costs.min_time(1000), 5'000 + 1'000'000 * 8 / 2);
}

TEST(CostModel, HugeLengthsDoNotOverflow) {
  MachineProfile profile = testing::memory_only_profile(1);
  profile.read_bytes_per_us = 1e-3;
  profile.flops_per_us = 1e-3;
  CostModel costs;
  costs.reset(profile, testing::shape_of(16, 1));
  const Nanoseconds most = costs.task(std::numeric_limits<std::int64_t>::max(),
                                      std::numeric_limits<std::int64_t>::max(), kMaxItemQueries * 16, kMaxItemQueries);
  EXPECT_GT(most, 0);
  EXPECT_LT(CostClasses::class_of(most), CostClasses::kClasses);
}

TEST(CostClasses, ClassesFollowCostsWithinThreePercent) {
  std::size_t last = 0;
  for (Nanoseconds cost = 0; cost < 100'000'000; cost += 1 + cost / 200) {
    const std::size_t index = CostClasses::class_of(cost);
    EXPECT_GE(index, last);
    EXPECT_LE(index, last + 1);
    EXPECT_EQ(index == CostClasses::class_of(cost + cost / 31 + 1), false) << cost;
    last = index;
  }
}

TEST(CostClasses, EqualTasksTakeWholeRounds) {
  CostClasses classes;
  for (int i = 0; i < 25; ++i) classes.add(1000);
  std::vector<Nanoseconds> loads;
  EXPECT_EQ(classes.makespan(8, 1, loads), 4000);  // 3 rounds of 8, and one more
  EXPECT_EQ(classes.makespan(8, 8, loads), 25'000);
  EXPECT_EQ(classes.bound(8, 1), 4000);
  EXPECT_EQ(classes.bound(8, 8), 25'000);
  classes.clear();
  EXPECT_EQ(classes.makespan(8, 8, loads), 0);
}

TEST(CostClasses, OneLongTaskSetsTheTime) {
  CostClasses classes;
  classes.add(1'000'000);
  for (int i = 0; i < 63; ++i) classes.add(1000);
  std::vector<Nanoseconds> loads;
  EXPECT_EQ(classes.makespan(16, 1, loads), 1'000'000);
  EXPECT_EQ(classes.bound(16, 1), 1'000'000);
}

TEST(CostClasses, MakespanIsCloseToListScheduling) {
  for (int seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const int workers = testing::uniform(random, 1, 40);
    const int copies = testing::uniform(random, 1, 8);
    CostClasses classes;
    std::vector<Nanoseconds> costs;
    std::vector<Nanoseconds> loads;
    for (int i = testing::uniform(random, 1, 400); i > 0; --i) {
      costs.push_back(Nanoseconds{1000} << testing::uniform(random, 0, 6));
      costs.back() += testing::uniform(random, 0, 900);
      classes.add(costs.back());
    }
    SCOPED_TRACE(concat("seed ", seed));
    const auto listed = static_cast<double>(listed_makespan(costs, static_cast<std::size_t>(workers), copies));
    const auto longest = static_cast<double>(*std::max_element(costs.begin(), costs.end()));
    const auto estimated = static_cast<double>(classes.makespan(workers, copies, loads));
    // Between what no schedule beats, but for classes' rounding, and list scheduling with one short task more.
    EXPECT_GE(estimated, 0.97 * static_cast<double>(classes.total()) * copies / workers);
    EXPECT_GE(estimated, 0.97 * longest);
    EXPECT_LE(estimated, 1.03 * listed + longest / 4);
    // The bound is below every schedule, and longest first at most a third above the best.
    const auto bound = static_cast<double>(classes.bound(workers, copies));
    EXPECT_LE(bound, 1.03 * listed);
    EXPECT_GE(bound, 0.97 * 0.75 * listed);
  }
}

}  // namespace
}  // namespace trunkline
