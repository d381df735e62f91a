// Rows of page ids compared at every place of a row, beside a loop over single pages.
#include "plan/device/page_compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/device/host_group.hpp"

namespace trunkline {
namespace {

constexpr std::int32_t kPages = 70;  // some 16-byte words beyond a multiple of what a thread loads
constexpr std::int32_t kNull = 1000;

template <class Id>
class PageCompare : public ::testing::Test {};
using Ids = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(PageCompare, Ids);

// Rows begin at any place, 16-byte words are aligned or not. Behind the last page is memory of another row.
TYPED_TEST(PageCompare, FindsTheFirstMismatchAtEveryPlace) {
  testing::HostGroup group;
  DeviceBatch batch;
  batch.null_page = kNull;
  for (const std::int32_t shift : {0, 1, 2, 3}) {
    std::vector<TypeParam> a(kPages + 4);
    for (std::int32_t i = 0; i < kPages; ++i) a[static_cast<std::size_t>(shift + i)] = static_cast<TypeParam>(i + 1);
    for (const std::int32_t begin : {0, 1, 15, 16, 17, 40}) {
      for (const std::int32_t end : {begin, begin + 1, 48, 63, 64, 65, kPages}) {
        for (std::int32_t wrong = 0; wrong < kPages; ++wrong) {
          std::vector<TypeParam> b = a;
          b[static_cast<std::size_t>(shift + wrong)] = wrong % 2 == 0 ? TypeParam{0} : static_cast<TypeParam>(kNull);
          const std::int32_t expected = wrong >= begin && wrong < end ? wrong : std::max(begin, end);
          EXPECT_EQ(first_mismatch(group, batch, a.data() + shift, b.data() + shift, begin, end), expected);
          if (wrong % 2 == 1) {  // null in both rows
            EXPECT_EQ(first_mismatch(group, batch, b.data() + shift, b.data() + shift, begin, end), expected);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trunkline
