#include "cli/measure.hpp"

#include <gtest/gtest.h>

namespace trunkline::cli {
namespace {

TEST(Summarize, MedianAndNearestRankPercentiles) {
  const Timing odd = summarize({5, 1, 3});
  EXPECT_DOUBLE_EQ(odd.us, 3);
  EXPECT_DOUBLE_EQ(odd.us_p10, 1);
  EXPECT_DOUBLE_EQ(odd.us_p90, 5);
  const Timing even = summarize({10, 9, 8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_DOUBLE_EQ(even.us, 5.5);
  EXPECT_DOUBLE_EQ(even.us_p10, 1);
  EXPECT_DOUBLE_EQ(even.us_p90, 9);
  EXPECT_DOUBLE_EQ(summarize({2}).us_p90, 2);
}

}  // namespace
}  // namespace trunkline::cli
