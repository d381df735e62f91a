// Quotients that planning finds by other means than the division of the language.
#include "plan/team/page_size.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

#include "base/quotient.hpp"

namespace trunkline {
namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

void expect_divides(std::int32_t tokens, std::int32_t page_size) {
  ASSERT_EQ(tokens / PageSize(page_size), tokens / page_size) << tokens << " by " << page_size;
  const std::int64_t pages = (std::int64_t{tokens} + page_size - 1) / page_size;
  ASSERT_EQ(team_pages(tokens, page_size), pages) << tokens << " by " << page_size;
}

TEST(PageSize, DividesAsNumbersDo) {
  for (std::int32_t page_size = 1; page_size <= 300; ++page_size) {
    EXPECT_EQ(PageSize(page_size), page_size);
    for (std::int32_t tokens = 0; tokens <= 1000; ++tokens) expect_divides(tokens, page_size);
  }
}

TEST(PageSize, LessThanOneCountsAsOne) {
  for (const std::int32_t page_size : {0, -3}) EXPECT_EQ(17 / PageSize(page_size), 17);
}

// A quotient is wrong first where a multiple of the divisor begins or ends.
TEST(PageSize, DividesAtTheEdges) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const int bits = std::uniform_int_distribution<int>(1, 31)(random);
    const auto page_size = static_cast<std::int32_t>(random() % (std::uint64_t{1} << bits) % kMost + 1);
    const std::int32_t whole =
        static_cast<std::int32_t>(random() % (static_cast<std::uint64_t>(kMost / page_size) + 1));
    const std::int32_t multiple = whole * page_size;
    for (const std::int32_t tokens : {multiple, std::max(multiple - 1, 0), kMost, kMost - 1}) {
      expect_divides(tokens, page_size);
    }
  }
}

TEST(Quotient, OfLargeNumbers) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 62;
  EXPECT_EQ(quotient(kLarge + 5, 3), (kLarge + 5) / 3);
  EXPECT_EQ(quotient(kLarge - 1, kLarge), 0);
  EXPECT_EQ(quotient_up(kLarge - 1, kLarge), 1);
  EXPECT_EQ(quotient_up(0, 7), 0);
  EXPECT_EQ(quotient_up(14, 7), 2);
  EXPECT_EQ(quotient_up(15, 7), 3);
}

}  // namespace
}  // namespace trunkline
