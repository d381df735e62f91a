#include "kv/prefix_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "support/expect_error.hpp"
#include "support/test_scale.hpp"

namespace trunkline::testing {
namespace {

using ::testing::ElementsAre;

using Keys = std::vector<std::uint64_t>;
using Pages = std::vector<std::int32_t>;

Pages taken(PrefixCache& cache, int count) {
  Pages pages;
  for (int i = 0; i < count; ++i) pages.push_back(cache.take());
  return pages;
}

TEST(PrefixCache, FindsTheLongestPrefixAndSharesItsPages) {
  PagePool pool(8);
  PrefixCache cache(pool);
  Pages first = taken(cache, 3);
  cache.insert(Keys{10, 11, 12}, 0, first);
  Pages found;
  EXPECT_EQ(cache.match(Keys{10, 11, 99}, found), 2u);
  EXPECT_THAT(found, ElementsAre(first[0], first[1]));
  EXPECT_EQ(pool.references(first[0]), 3);  // two requests and the cache
  EXPECT_EQ(pool.references(first[2]), 2);
  EXPECT_EQ(cache.match(Keys{11}, found), 1u) << "a key stands for all before it";
}

TEST(PrefixCache, PutsTheKnownPageInPlaceOfAnotherComputedBeside) {
  PagePool pool(8);
  PrefixCache cache(pool);
  Pages first = taken(cache, 2);
  Pages second = taken(cache, 2);
  cache.insert(Keys{10, 11}, 0, first);
  cache.insert(Keys{10, 12}, 0, second);
  EXPECT_EQ(second[0], first[0]);
  EXPECT_NE(second[1], first[1]);
  EXPECT_EQ(pool.used_pages(), 3);
  cache.release(first);
  cache.release(second);
  EXPECT_EQ(cache.idle_pages(), 3);
  cache.clear();
  EXPECT_EQ(pool.used_pages(), 0);
}

TEST(PrefixCache, EvictsTheLeastRecentlyReleasedFromTheEnd) {
  PagePool pool(4);
  PrefixCache cache(pool);
  Pages old_prompt = taken(cache, 2);
  cache.insert(Keys{10, 11}, 0, old_prompt);
  Pages new_prompt = taken(cache, 2);
  cache.insert(Keys{20, 21}, 0, new_prompt);
  expect_error(ErrorCode::kOutOfRange, "all 4 pages", [&] { cache.take(); });
  cache.release(old_prompt);
  cache.release(new_prompt);
  EXPECT_EQ(cache.take(), old_prompt[1]);
  Pages found;
  EXPECT_EQ(cache.match(Keys{10, 11}, found), 1u);
  EXPECT_EQ(cache.take(), new_prompt[1]) << "page 10 is in use again";
  EXPECT_EQ(cache.take(), new_prompt[0]);
  EXPECT_EQ(cache.evicted_pages(), 3);
  expect_error(ErrorCode::kOutOfRange, "all 4 pages", [&] { cache.take(); });
}

TEST(PrefixCache, RefusesToCacheBehindAPageThatIsNotCached) {
  PagePool pool(4);
  PrefixCache cache(pool);
  Pages pages = taken(cache, 2);
  expect_error(ErrorCode::kInvalidArgument, "first is 1", [&] { cache.insert(Keys{10, 11}, 1, pages); });
}

// Random prompts of a small tree of keys, in a pool too small for all of them, beside plain counts of who holds what.
TEST(PrefixCache, CountsAreThoseOfAPlainModel) {
  for (int seed = 0; seed < scaled(300); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    PagePool pool(24);
    PrefixCache cache(pool);
    std::vector<Pages> requests;
    for (int event = 0; event < 200; ++event) {
      if (requests.size() == 4 || (!requests.empty() && random() % 3 == 0)) {
        cache.release(requests.back());
        requests.pop_back();
      } else {
        Keys keys;
        for (std::uint64_t depth = 0, key = 1; depth < 1 + random() % 5; ++depth) {
          keys.push_back(key = 3 * key + random() % 3);
        }
        Pages pages;
        const std::size_t found = cache.match(keys, pages);
        while (pages.size() < keys.size()) pages.push_back(cache.take());
        cache.insert(keys, found, pages);
        requests.push_back(pages);
        std::swap(requests.back(), requests[random() % requests.size()]);
      }
      std::map<std::int32_t, std::int32_t> holders;
      for (const Pages& pages : requests) {
        for (const std::int32_t page : pages) ++holders[page];
      }
      for (const auto& [page, count] : holders) ASSERT_EQ(pool.references(page), count + 1) << "page " << page;
      const auto held = static_cast<std::int64_t>(holders.size());
      ASSERT_EQ(pool.used_pages(), cache.cached_pages());
      ASSERT_EQ(cache.idle_pages(), cache.cached_pages() - held);
    }
    for (const Pages& pages : requests) cache.release(pages);
    cache.clear();
    ASSERT_EQ(pool.used_pages(), 0);
    ASSERT_EQ(cache.cached_pages(), 0);
  }
}

}  // namespace
}  // namespace trunkline::testing
