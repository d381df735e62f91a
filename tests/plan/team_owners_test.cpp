// Forests of batches that are looked at with the owners of another batch in mind: whatever these were, the forest is
// the host's; and where they are right, no round of comparing is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plan/planned_forest.hpp"
#include "support/brute_forest.hpp"
#include "support/random_batch.hpp"
#include "support/team_batches.hpp"
#include "support/test_scale.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

using testing::PlannedForest;
using testing::RandomBatch;
using testing::uniform;

constexpr std::int32_t kGrowth = 40;

std::size_t any_row(std::mt19937_64& random, const RandomBatch& batch) {
  return static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(batch.kv_lens.size()) - 1));
}

/// A row that begins with some pages of another and goes on with its own.
void replace_row(std::mt19937_64& random, RandomBatch& batch, std::size_t row) {
  std::vector<std::int64_t> pages = batch.row_pages[any_row(random, batch)];
  pages.resize(static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(pages.size()))));
  for (std::int32_t more = uniform(random, 0, 3); more > 0; --more) pages.push_back(batch.num_pages++);
  const auto whole = static_cast<std::int32_t>(pages.size()) * batch.options.page_size;
  batch.kv_lens[row] = whole == 0 ? 0 : whole - uniform(random, 0, batch.options.page_size - 1);
  batch.row_pages[row] = std::move(pages);
}

/// Requests end, join, take others' rows, or change places.
void change(std::mt19937_64& random, RandomBatch& batch) {
  const std::size_t row = any_row(random, batch);
  switch (uniform(random, 0, 4)) {
    case 0: replace_row(random, batch, row); break;
    case 1:
      batch.row_pages.emplace_back();
      batch.kv_lens.push_back(0);
      replace_row(random, batch, batch.kv_lens.size() - 1);
      break;
    case 2:  // the last row fills the gap
      std::swap(batch.row_pages[row], batch.row_pages.back());
      std::swap(batch.kv_lens[row], batch.kv_lens.back());
      if (batch.kv_lens.size() > 1) {
        batch.row_pages.pop_back();
        batch.kv_lens.pop_back();
      }
      break;
    case 3: {
      const std::size_t other = any_row(random, batch);
      std::swap(batch.row_pages[row], batch.row_pages[other]);
      std::swap(batch.kv_lens[row], batch.kv_lens[other]);
      break;
    }
    default: batch.kv_lens[row] = std::max(0, batch.kv_lens[row] - uniform(random, 0, 3)); break;
  }
}

RandomBatch make_batch(std::uint64_t seed, std::int32_t most_rows) {
  RandomBatch batch = testing::make_team_batch(seed, most_rows);
  batch.num_pages = std::int64_t{1} << 30;
  batch.query_start.clear();
  batch.lay_out_table();
  return batch;
}

TEST(TeamOwners, OfAnotherBatchDoNoHarm) {
  PlannedForest planned;
  int without_rounds = 0, with_rounds = 0, near = 0;
  for (int seed = 1; seed <= testing::scaled(8000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatch batch = make_batch(static_cast<std::uint64_t>(seed), seed % 20 == 0 ? 200 : 20);
    if (batch.kv_lens.empty()) continue;
    planned.remember(testing::team_batch_of(batch.view()), kGrowth);
    for (int step = 0; step < 3; ++step) {
      if (seed % 5 == 0) {
        batch = make_batch(static_cast<std::uint64_t>(seed + step) + 1, 20);
      } else {
        for (int changes = uniform(random, 0, 4); changes > 0; --changes) change(random, batch);
        batch.lay_out_table();
      }
      const TeamBatch live = testing::team_batch_of(batch.view());
      const std::string expected = testing::team_text(build_forest(batch.view()));
      ASSERT_EQ(testing::to_text(planned.find_after(live, static_cast<std::uint64_t>(seed) * 77)), expected);
      (planned.rounds() == 0 ? without_rounds : with_rounds) += 1;
      near += planned.is_near() ? 1 : 0;
      ASSERT_FALSE(planned.near_differs() || planned.told_differs());
      if (seed % 100 < 2) {
        ASSERT_EQ(testing::to_text(planned.find_after_by_threads(live)), expected);
        ASSERT_FALSE(planned.near_differs());
      }
    }
  }
  EXPECT_GT(without_rounds, testing::scaled(1500));
  EXPECT_GT(with_rounds, testing::scaled(1500));
  EXPECT_GT(near, testing::scaled(1500));
}

/// One to three query tokens a row, no more than it has tokens; none for an empty row.
void draw_queries(std::mt19937_64& random, RandomBatch& batch) {
  batch.query_start.assign(1, 0);
  for (const std::int32_t length : batch.kv_lens) {
    batch.query_start.push_back(batch.query_start.back() + uniform(random, std::min(length, 1), std::min(length, 3)));
  }
}

TEST(TeamOwners, QueriesAndFaultsBetweenStepsDoNoHarm) {
  int faulty = 0;
  for (int seed = 1; seed <= testing::scaled(400); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatch batch = make_batch(static_cast<std::uint64_t>(seed), seed % 10 == 0 ? 200 : 20);
    if (batch.kv_lens.empty()) continue;
    PlannedForest planned;
    planned.remember(testing::team_batch_of(batch.view()), kGrowth);
    for (int step = 0; step < 12; ++step) {
      for (int changes = uniform(random, 0, 2); changes > 0; --changes) change(random, batch);
      draw_queries(random, batch);
      batch.lay_out_table();
      RandomBatch given = batch;
      RandomBatch sound = batch;
      if (uniform(random, 0, 3) == 0) {  // a length that cannot be: planned as empty
        const std::size_t row = any_row(random, batch);
        given.kv_lens[row] = uniform(random, 0, 1) == 0 ? -1 : 1 << 30;
        sound.kv_lens[row] = 0;
        sound.query_start.clear();
        given.query_start.clear();
        ++faulty;
      }
      ASSERT_EQ(testing::to_text(planned.find_after(testing::team_batch_of(given.view()), 7)),
                testing::team_text(build_forest(sound.view())));
      ASSERT_EQ(planned.faults().lengths, given.kv_lens == sound.kv_lens ? 0 : 1);
    }
  }
  EXPECT_GT(faulty, 0);
}

TEST(TeamOwners, WhateverIsRememberedDoesNoHarm) {
  PlannedForest planned;
  for (int seed = 1; seed <= testing::scaled(4000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const RandomBatch batch = make_batch(static_cast<std::uint64_t>(seed), 24);
    std::vector<SteadyRow> rows(batch.kv_lens.size() + 1);
    for (SteadyRow& row : rows) {
      row.owner = uniform(random, -2, static_cast<std::int32_t>(batch.kv_lens.size()) + 1);
      row.shared = uniform(random, -1, 100);
      row.next_id = uniform(random, 0, 100);
      row.most_len = 1 << 20;
    }
    planned.set_remembered_rows(rows);
    ASSERT_EQ(testing::to_text(planned.find_after(testing::team_batch_of(batch.view()), 3)),
              testing::team_text(build_forest(batch.view())));
  }
}

TEST(TeamOwners, RowsThatGrowLeaveTheShape) {
  PlannedForest planned;
  int grown = 0;
  for (int seed = 1; seed <= testing::scaled(2000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatch batch = make_batch(static_cast<std::uint64_t>(seed), seed % 20 == 0 ? 200 : 24);
    planned.remember(testing::team_batch_of(batch.view()), kGrowth);
    const Forest before = build_forest(batch.view());
    for (int step = 0; step < 2; ++step) {
      for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
        const std::int32_t node = before.requests[row].node;
        if (node < 0 || before.nodes[static_cast<std::size_t>(node)].requests.size() > 1) continue;
        batch.kv_lens[row] += uniform(random, 0, 2 * kGrowth);
        const auto tokens = static_cast<std::size_t>(batch.kv_lens[row]);
        const auto page_size = static_cast<std::size_t>(batch.options.page_size);
        while (batch.row_pages[row].size() * page_size < tokens) batch.row_pages[row].push_back(batch.num_pages++);
        ++grown;
      }
      batch.lay_out_table();
      ASSERT_EQ(testing::to_text(planned.find_after(testing::team_batch_of(batch.view()), 9)),
                testing::team_text(build_forest(batch.view())));
      ASSERT_TRUE(planned.guess() == OwnerGuess::kSameShape || batch.kv_lens.empty());
      ASSERT_FALSE(planned.near_differs());
    }
  }
  EXPECT_GT(grown, 0);
}

TEST(TeamOwners, RightOnesSpareAllRounds) {
  PlannedForest planned;
  for (int seed = 1; seed <= testing::scaled(2000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomBatch batch = make_batch(static_cast<std::uint64_t>(seed), seed % 20 == 0 ? 200 : 24);
    planned.remember(testing::team_batch_of(batch.view()), kGrowth);
    // The same tree of other pages.
    for (auto& pages : batch.row_pages) {
      for (std::int64_t& page : pages) page = page == batch.null_page ? page : page + 1000000;
    }
    batch.lay_out_table();
    ASSERT_EQ(testing::to_text(planned.find_after(testing::team_batch_of(batch.view()), 9)),
              testing::team_text(build_forest(batch.view())));
    ASSERT_EQ(planned.rounds(), 0);
    ASSERT_TRUE(planned.guess() == OwnerGuess::kSameShape || batch.kv_lens.empty());
    ASSERT_FALSE(planned.near_differs());
  }
}

TEST(TeamOwners, TokensOfAllRowsAreSummedExactly) {
  TokenSums sums;
  constexpr std::int32_t kLength = std::numeric_limits<std::int32_t>::max();
  for (std::int32_t row = 0; row < kMaxTeamRows; ++row) {
    sums.add<HostTeam>(HostLanes(), {kLength, kLength - row, row});
  }
  const std::int64_t rows = kMaxTeamRows;
  EXPECT_EQ(sums.of(TokenSums::kTotal), rows * kLength);
  EXPECT_EQ(sums.of(TokenSums::kDistinct), rows * kLength - rows * (rows - 1) / 2);
  EXPECT_EQ(sums.of(TokenSums::kAlone), rows * (rows - 1) / 2);
}

/// Rows of 5 pages, which all share the first 3.
RandomBatch one_prefix(std::int64_t rows) {
  RandomBatch batch;
  batch.num_pages = 1000;
  for (std::int64_t row = 0; row < rows; ++row) {
    batch.row_pages.push_back({1, 2, 3, 10 + row, 100 + row});
    batch.kv_lens.push_back(5 * batch.options.page_size);
  }
  batch.lay_out_table();
  return batch;
}

TEST(TeamOwners, OfARowThatJoinsIsTheFirstRow) {
  PlannedForest planned;
  const RandomBatch before = one_prefix(8);
  const RandomBatch after = one_prefix(9);
  planned.remember(testing::team_batch_of(before.view()), kGrowth);
  ASSERT_EQ(testing::to_text(planned.find_after(testing::team_batch_of(after.view()), 1)),
            testing::team_text(build_forest(after.view())));
  EXPECT_EQ(planned.guess(), OwnerGuess::kRight);
}

/// 2^levels rows, which part in two at each level, and end with a page of their own.
RandomBatch binary_tree(std::int32_t levels) {
  RandomBatch batch;
  const std::int64_t rows = std::int64_t{1} << levels;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<std::int64_t>& pages = batch.row_pages.emplace_back();
    for (std::int32_t level = 0; level <= levels; ++level) pages.push_back(1000 * level + (row >> (levels - level)));
    pages.push_back(100'000 + row);
    batch.kv_lens.push_back(static_cast<std::int32_t>(pages.size()) * batch.options.page_size);
  }
  batch.num_pages = 1'000'000;
  batch.lay_out_table();
  return batch;
}

TEST(TeamOwners, AreRepairedWhereAnOwnerHasLeft) {
  constexpr std::int32_t kLevels = 6;
  PlannedForest planned;
  const RandomBatch before = binary_tree(kLevels);
  for (std::size_t row = 0; row < before.kv_lens.size(); ++row) {
    SCOPED_TRACE(row);
    RandomBatch after = before;
    for (std::size_t page = kLevels / 2; page < after.row_pages[row].size(); ++page) {
      after.row_pages[row][page] = after.num_pages++;
    }
    after.lay_out_table();
    planned.remember(testing::team_batch_of(before.view()), kGrowth);
    for (const bool left : {true, false}) {  // it comes back, too
      const RandomBatch& live = left ? after : before;
      ASSERT_EQ(testing::to_text(planned.find_after(testing::team_batch_of(live.view()), 1)),
                testing::team_text(build_forest(live.view())));
      EXPECT_EQ(planned.guess(), OwnerGuess::kRight);
      EXPECT_LE(planned.rounds(), 3) << "rounds alone would be " << kLevels;
    }
  }
}

TEST(TeamOwners, AreGuessedSeldomWhereGuessesAreWrong) {
  LastForest last;
  int wrong = 0;
  for (int step = 0; step < 1000; ++step) {
    const bool guessed = last.pause == 0;
    wrong += guessed;
    last.count(guessed ? OwnerGuess::kWrong : OwnerGuess::kNone, last);
  }
  EXPECT_LT(wrong, 25);
  while (last.pause > 0) last.count(OwnerGuess::kNone, last);
  last.count(OwnerGuess::kRight, last);
  EXPECT_EQ(last.pause, 0);
  last.count(OwnerGuess::kWrong, last);
  EXPECT_EQ(last.pause, 1) << "what was right is tried again soon";
}

}  // namespace
}  // namespace trunkline
