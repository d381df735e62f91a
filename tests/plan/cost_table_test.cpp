#include "plan/cost_table.hpp"

#include <gtest/gtest.h>

namespace trunkline {
namespace {

MeasuredCosts measured(const CostTable& table, std::int32_t head_dim = 128) {
  MeasuredCosts costs;
  costs.reset(table, head_dim);
  return costs;
}

//            64     128    256 tokens
//  4 rows     1       2      3 us
// 16 rows     2       4      8 us
const CostTable kTable = {128, {4, 16}, {64, 128, 256}, {1, 2, 3, 2, 4, 8}};

TEST(CostTable, PointsAreAsMeasured) {
  const MeasuredCosts costs = measured(kTable);
  EXPECT_EQ(costs.task(4, 64), 1000);
  EXPECT_EQ(costs.task(4, 256), 3000);
  EXPECT_EQ(costs.task(16, 128), 4000);
}

TEST(CostTable, LinearBetweenPoints) {
  const MeasuredCosts costs = measured(kTable);
  EXPECT_EQ(costs.task(4, 96), 1500);
  EXPECT_EQ(costs.task(4, 160), 2250);  // a quarter from 2 to 3
  EXPECT_EQ(costs.task(10, 64), 1500);  // half way from 1 to 2
  EXPECT_EQ(costs.task(7, 160), 2937);  // a quarter from 2,250 to 5,000, rounded down
}

TEST(CostTable, InProportionBeyondThem) {
  const MeasuredCosts costs = measured(kTable);
  EXPECT_EQ(costs.task(4, 512), 6000);
  EXPECT_EQ(costs.task(32, 128), 8000);
  EXPECT_EQ(costs.task(32, 512), 32'000);
}

TEST(CostTable, TheSmallestStaysBelowThem) {
  const MeasuredCosts costs = measured(kTable);
  EXPECT_EQ(costs.task(1, 1), 1000);
  EXPECT_EQ(costs.task(1, 128), 2000);
  EXPECT_EQ(costs.task(16, 0), 2000);
}

TEST(CostTable, TimesScaleWithTheHead) {
  EXPECT_EQ(measured(kTable, 256).task(4, 64), 2000);
  EXPECT_EQ(measured(kTable, 64).task(4, 96), 750);
}

// Noise may measure more work as faster. A search for the fewest parts that are short enough needs order.
TEST(CostTable, MoreNeverCostsLess) {
  const MeasuredCosts costs = measured({128, {4, 16}, {64, 128}, {3, 2, 1, 4}});
  EXPECT_EQ(costs.task(4, 128), 3000);
  EXPECT_EQ(costs.task(16, 64), 3000);
  EXPECT_EQ(costs.task(16, 128), 4000);
}

TEST(CostTable, OnePointAndNone) {
  EXPECT_EQ(measured({128, {16}, {64}, {2}}).task(32, 128), 8000);
  EXPECT_TRUE(measured({}).empty());
  EXPECT_FALSE(measured(kTable).empty());
}

// 2^31 tokens of 2^11 rows at the largest cost that is kept.
TEST(CostTable, LimitsHold) {
  const MeasuredCosts costs = measured({128, {1}, {1}, {1e12}});
  EXPECT_EQ(costs.task(2048, 2'147'483'647), Nanoseconds{1} << 40);
}

}  // namespace
}  // namespace trunkline
