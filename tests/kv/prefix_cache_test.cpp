#include "kv/prefix_cache.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace trunkline::testing {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Pages of two tokens.
class PrefixCacheTest : public ::testing::Test {
 protected:
  // Pages behind one another, each with a reference of the caller's.
  std::vector<std::int32_t> insert(const std::vector<Tokens>& path) {
    std::vector<std::int32_t> pages;
    std::int32_t parent = -1;
    for (const Tokens& tokens : path) {
      pages.push_back(cache_.take());
      EXPECT_TRUE(cache_.insert(parent, tokens, pages.back()));
      parent = pages.back();
    }
    return pages;
  }

  PagePool pool_{4};
  PrefixCache cache_{pool_, 2};
};

TEST_F(PrefixCacheTest, FindsPagesByTheirTokensAndThoseBefore) {
  const auto pages = insert({{1, 2}, {3, 4}});
  EXPECT_EQ(cache_.find(-1, Tokens{1, 2}), pages[0]);
  EXPECT_EQ(cache_.find(pages[0], Tokens{3, 4}), pages[1]);
  EXPECT_EQ(cache_.find(-1, Tokens{3, 4}), -1);
  EXPECT_EQ(cache_.find(pages[0], Tokens{4, 3}), -1);
  EXPECT_EQ(pool_.references(pages[0]), 2) << "the caller and the cache";
}

TEST_F(PrefixCacheTest, CachesAPageOnce) {
  const auto pages = insert({{1, 2}});
  EXPECT_FALSE(cache_.insert(-1, Tokens{3, 4}, pages[0]));
  EXPECT_FALSE(cache_.insert(-1, Tokens{1, 2}, cache_.take()));
  EXPECT_EQ(cache_.cached_pages(), 1);
}

TEST_F(PrefixCacheTest, EvictsTheLeastRecentlyReleasedFromTheEnd) {
  const auto older = insert({{1, 2}, {3, 4}});
  const auto newer = insert({{5, 6}, {7, 8}});
  expect_error(ErrorCode::kOutOfRange, "all 4 pages", [&] { cache_.take(); });
  cache_.release(older);
  cache_.release(newer);
  EXPECT_EQ(cache_.take(), older[1]);
  cache_.share(older[0]);
  EXPECT_EQ(cache_.take(), newer[1]) << "the first page of the older is in use again";
  EXPECT_EQ(cache_.take(), newer[0]);
  EXPECT_EQ(cache_.evicted_pages(), 3);
  expect_error(ErrorCode::kOutOfRange, "all 4 pages", [&] { cache_.take(); });
}

TEST_F(PrefixCacheTest, APageIsInUseWhileADescendantIs) {
  const auto pages = insert({{1, 2}, {3, 4}, {5, 6}});
  cache_.release(std::vector{pages[0], pages[1]});
  EXPECT_EQ(cache_.idle_pages(), 0);
  cache_.release(std::vector{pages[2]});
  EXPECT_EQ(cache_.idle_pages(), 3);
  cache_.share(pages[2]);
  EXPECT_EQ(cache_.idle_pages(), 0);
}

}  // namespace
}  // namespace trunkline::testing
