// Sorting by a team, against keys that were made in order.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "plan/team/host_team.hpp"
#include "plan/team/sorted_keys.hpp"
#include "support/random_batch.hpp"
#include "support/thread_team.hpp"

namespace trunkline {
namespace {

using testing::uniform;

/// A lane of a device's warp, as far as sorting asks: what others have is known from a first turn, in which each is
/// told its own.
class Lane {
 public:
  static constexpr std::int32_t kCount = 32;
  using Values = std::array<std::uint64_t, kCount>;

  Lane(std::int32_t index, bool first_turn, Values& values)
      : index_(index), first_turn_(first_turn), values_(&values) {}
  std::int32_t index() const { return index_; }
  std::int32_t count() const { return kCount; }
  std::uint64_t from(std::uint64_t own, std::int32_t lane) const {
    if (!first_turn_) return values_->at(static_cast<std::size_t>(lane));
    return values_->at(static_cast<std::size_t>(index_)) = own;
  }

 private:
  std::int32_t index_;
  bool first_turn_;
  Values* values_;
};

/// A host's team with a device's warps.
class WideTeam : public HostTeam {
 public:
  static constexpr std::int32_t kLanes = Lane::kCount;
  using HostTeam::HostTeam;

  template <class F>
  void each_warp(std::int32_t count, F f) {
    each(count, [&f](std::int32_t i) {
      Lane::Values values{};
      for (const bool first_turn : {true, false}) {
        for (std::int32_t lane = 0; lane < kLanes; ++lane) f(i, Lane(lane, first_turn, values));
      }
    });
  }
};

std::vector<std::uint64_t> rising_keys(std::mt19937_64& random, std::int32_t count) {
  std::vector<std::uint64_t> keys;
  std::uint64_t key = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    key += static_cast<std::uint64_t>(uniform(random, 1, 1 << 30)) << uniform(random, 0, 20);
    keys.push_back(key);
  }
  return keys;
}

/// Takes some keys out and puts each in elsewhere.
void move_some(std::mt19937_64& random, std::vector<std::uint64_t>& keys, std::int32_t moved) {
  for (; moved > 0; --moved) {
    const auto last = static_cast<std::int32_t>(keys.size()) - 1;
    const std::ptrdiff_t from = uniform(random, 0, last);
    const std::uint64_t key = keys[static_cast<std::size_t>(from)];
    keys.erase(keys.begin() + from);
    keys.insert(keys.begin() + uniform(random, 0, last), key);
  }
}

std::int32_t falls(const std::vector<std::uint64_t>& keys) {
  std::int32_t count = 0;
  for (std::size_t i = 1; i < keys.size(); ++i) count += keys[i] < keys[i - 1] ? 1 : 0;
  return count;
}

/// All lengths with none, one and more keys elsewhere.
template <class Team>
void expect_sorted() {
  std::mt19937_64 random(5);
  std::array<int, 3> ways{};  // rounds with no fall, with one and with more
  for (std::int32_t count = 1; count < 1100; count += count < 140 ? 1 : uniform(random, 1, 40)) {
    for (const std::int32_t moved : {0, 1, 3, count}) {
      const std::vector<std::uint64_t> expected = rising_keys(random, count);
      std::vector<std::uint64_t> keys = expected;
      move_some(random, keys, moved);
      ++ways.at(static_cast<std::size_t>(least(falls(keys), 2)));
      std::vector<std::uint64_t> sorted(keys.size());
      Team team(random());
      sort_keys(team, keys.data(), sorted.data(), count);
      ASSERT_EQ(sorted, expected) << count << " keys, of which " << moved << " were moved";
    }
  }
  for (const int rounds : ways) EXPECT_GT(rounds, 100);
}

TEST(SortedKeys, ByOneLane) {
  expect_sorted<HostTeam>();
}

TEST(SortedKeys, ByWarps) {
  expect_sorted<WideTeam>();
}

TEST(SortedKeys, OfNoneNothingIsWritten) {
  HostTeam team;
  std::uint64_t key = 7;
  std::uint64_t sorted = 8;
  sort_keys(team, &key, &sorted, 0);
  EXPECT_EQ(key, 7u);
  EXPECT_EQ(sorted, 8u);
}

TEST(SortedKeys, ByThreadsOfABlock) {
  std::mt19937_64 random(6);
  for (const std::int32_t count : {5, 40, 300}) {
    for (const std::int32_t moved : {0, 1, 2, 40}) {
      const std::vector<std::uint64_t> expected = rising_keys(random, count);
      std::vector<std::uint64_t> keys = expected;
      move_some(random, keys, moved);
      std::vector<std::uint64_t> sorted(keys.size());
      testing::run_threads(1, 4, [&](auto& team, std::int32_t) {
        team.lead([&](auto& block) { sort_keys(block, keys.data(), sorted.data(), count); });
      });
      EXPECT_EQ(sorted, expected) << count << " keys, of which " << moved << " were moved";
    }
  }
}

}  // namespace
}  // namespace trunkline
