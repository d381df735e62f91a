// The growth helper itself: later tests of old plans on grown batches stand on it.
#include "support/paged_growth.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/batch.hpp"

namespace trunkline::testing {
namespace {

using Place = std::pair<std::int64_t, std::int32_t>;  // page, place in it

Place place_of(const RandomBatch& batch, std::size_t row, std::int32_t token) {
  const std::int32_t page_size = batch.options.page_size;
  return {batch.row_pages[row][static_cast<std::size_t>(token / page_size)], token % page_size};
}

/// Contents of the cache: a mark for every place that a request wrote.
using Cache = std::map<Place, std::int64_t>;

TEST(PagedGrowth, KeepsEveryTokenReadableAndWritesNowhereTwice) {
  for (int seed = 1; seed <= scaled(500); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatchOptions options;
    options.page_size = uniform(random, 1, 17);
    options.max_queries = 3;
    options.growth_tokens = 40;
    RandomBatch batch = make_random_batch(random, options);
    const RandomBatch before = batch;
    Cache cache;
    for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
      for (std::int32_t t = 0; t < batch.kv_lens[row]; ++t) cache.emplace(place_of(batch, row, t), cache.size());
    }
    const Cache written = cache;

    const std::int32_t tokens = uniform(random, 1, 40);
    for (const PageCopy& copy : grow(batch, tokens)) {
      for (std::int32_t place = 0; place < copy.tokens; ++place) {
        ASSERT_TRUE(cache.emplace(Place(copy.to, place), cache.at({copy.from, place})).second);
      }
    }
    std::set<Place> appended;
    for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
      for (std::int32_t t = 0; t < before.kv_lens[row]; ++t) {
        ASSERT_EQ(cache.at(place_of(batch, row, t)), written.at(place_of(before, row, t)));
      }
      for (std::int32_t t = before.kv_lens[row]; t < batch.kv_lens[row]; ++t) {
        ASSERT_TRUE(appended.insert(place_of(batch, row, t)).second) << "two rows write one place";
        ASSERT_EQ(cache.count(place_of(batch, row, t)), 0u) << "a written place is written again";
      }
      ASSERT_TRUE(before.kv_lens[row] == 0 || batch.kv_lens[row] == before.kv_lens[row] + tokens);
    }
    ASSERT_NO_THROW(check_batch(batch.view(), IdCheck::kAllPages));
  }
}

}  // namespace
}  // namespace trunkline::testing
