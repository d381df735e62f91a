// Entries that come and go, beside a map that is known to be right.
#include "forest/id_map.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <utility>

#include "support/random_batch.hpp"

namespace trunkline {
namespace {

// A table of 64 cells, half full, so that erased entries have others behind them.
TEST(IdMap, FollowsAMapWhileEntriesComeAndGo) {
  std::mt19937_64 random(1);
  IdMap map;
  map.reset(32);
  std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> known;
  for (std::int32_t step = 0; step < 20'000; ++step) {
    const std::pair<std::int32_t, std::int64_t> key = {testing::uniform(random, -1, 3), testing::uniform(random, 0, 9)};
    if (testing::uniform(random, 0, 1) == 0 && known.size() < 32) {
      const auto [entry, fresh] = known.emplace(key, step);
      ASSERT_EQ(map.find_or_add(key.first, key.second, step), entry->second);
    } else {
      known.erase(key);
      map.erase(key.first, key.second);
    }
    const std::pair<std::int32_t, std::int64_t> other = {testing::uniform(random, -1, 3),
                                                         testing::uniform(random, 0, 9)};
    const auto found = known.find(other);
    ASSERT_EQ(map.find(other.first, other.second), found == known.end() ? -1 : found->second) << "step " << step;
  }
}

}  // namespace
}  // namespace trunkline
