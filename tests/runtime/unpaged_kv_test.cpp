// UnpagedKv: where runs lie, when they move, and that no two ever overlap.
#include "trunkline/runtime/unpaged_kv.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "support/expect_error.hpp"

namespace trunkline::testing {
namespace {

TEST(UnpagedKv, GrowsInPlaceWhereTheNextSlotsAreFree) {
  UnpagedKv kv(10);
  const std::int32_t a = kv.allocate(3);
  EXPECT_EQ(kv.append(a, 2).after.begin, 0);
  const std::int32_t b = kv.allocate(2);
  EXPECT_EQ(kv.run(b).begin, 5);
  expect_error(ErrorCode::kOutOfRange, "tokens need 6 slots in a row; of the 10, 3 are free", [&] { kv.append(a, 1); });
  EXPECT_EQ(kv.run(a).tokens, 5);
  const RunGrowth growth = kv.append(b, 3);
  EXPECT_EQ(growth.after.begin, 5);
  kv.free(a);
  EXPECT_EQ(kv.largest_gap(), 5);
  kv.free(b);
  EXPECT_EQ(kv.largest_gap(), 10);
  expect_error(ErrorCode::kOutOfRange, "run is 0, which is no run", [&] { kv.free(a); });
  expect_error(ErrorCode::kInvalidArgument, "tokens is -1", [&] { kv.allocate(-1); });
  expect_error(ErrorCode::kInvalidArgument, "num_slots is 0", [] { UnpagedKv none(0); });
}

TEST(UnpagedKv, RandomRunsNeverOverlapAndKeepTheirTokens) {
  std::mt19937_64 random(5);
  const auto uniform = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  UnpagedKv kv(64);
  std::vector<int> slots(64);  // what a store would hold
  std::map<std::int32_t, std::vector<int>> runs;
  int written = 0;
  int moved = 0;
  for (int i = 0; i < 4000; ++i) {
    try {
      if (runs.empty() || uniform(0, 3) == 0) {
        const std::int32_t run = kv.allocate(0);
        ASSERT_TRUE(runs.emplace(run, std::vector<int>{}).second);
      }
      const auto run = std::next(runs.begin(), uniform(0, static_cast<int>(runs.size()) - 1));
      if (uniform(0, 4) == 0) {
        kv.free(run->first);
        runs.erase(run);
      } else {
        const RunGrowth growth = kv.append(run->first, uniform(0, 5));
        moved += growth.before.tokens > 0 && growth.before.begin != growth.after.begin ? 1 : 0;
        for (std::int32_t token = 0; token < growth.after.tokens; ++token) {
          const auto to = static_cast<std::size_t>(growth.after.begin + token);
          if (token < growth.before.tokens) {
            slots[to] = slots[static_cast<std::size_t>(growth.before.begin + token)];
          } else {
            slots[to] = ++written;
            run->second.push_back(written);
          }
        }
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kOutOfRange) << error.what();
    }
    std::int64_t used = 0;
    for (const auto& [number, tokens] : runs) {
      const KvRun run = kv.run(number);
      ASSERT_EQ(run.tokens, static_cast<std::int32_t>(tokens.size()));
      for (std::size_t token = 0; token < tokens.size(); ++token) {
        ASSERT_EQ(slots[static_cast<std::size_t>(run.begin) + token], tokens[token]);
      }
      used += run.tokens;
    }
    ASSERT_EQ(kv.free_slots(), 64 - used);
  }
  EXPECT_GT(moved, 10);
}

}  // namespace
}  // namespace trunkline::testing
