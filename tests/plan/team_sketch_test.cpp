// Plans of which some blocks make a sketch while others try tiles are the host planner's, bit for bit.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/check.hpp"
#include "plan/same_team_plan.hpp"
#include "plan/team/tile_guess.hpp"
#include "plan/test_cases.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"

namespace trunkline {
namespace {

using testing::expect_same;
using testing::grouped_forest;
using testing::h200_profile;
using testing::near_seed;
using testing::room_for;
using testing::TeamOptions;
using testing::trunk_options;
using testing::uniform;

TEST(TeamPlan, AGuessThatNobodyHasWritten) {
  TileGuess guess;
  std::memset(static_cast<void*>(&guess), 0xCD, sizeof(guess));
  EXPECT_FALSE(guess.is_likely(3));
  guess.times = TileGuess::kLikely;
  EXPECT_FALSE(guess.is_likely(3)) << "of more tiles than there are begins";
}

TEST(TeamPlan, AGuessOfCutsIsLateForSomePlans) {
  const TileGuess::Tiles tiles{.number = 1, .width = 1, .count = 2};
  const std::int32_t begins[] = {0, 4, 8};
  TileGuess guess{};
  EXPECT_TRUE(guess.learn(tiles, begins, 3, false));
  EXPECT_TRUE(guess.learn(tiles, begins, 3, false));
  EXPECT_TRUE(guess.is_likely(8));
  EXPECT_EQ(guess.late, 0) << "the round is what it was";
  EXPECT_FALSE(guess.learn(tiles, begins, 3, false)) << "nothing is new";
  EXPECT_TRUE(guess.learn(tiles, begins, -1, false));
  EXPECT_TRUE(guess.is_likely(8)) << "cuts alone are others";
  EXPECT_EQ(guess.round, -1);
  for (std::int32_t late = TileGuess::kLate; late > 0; --late) {
    EXPECT_EQ(guess.late, late);
    EXPECT_TRUE(guess.learn_cuts(-1, false));
  }
  EXPECT_FALSE(guess.learn_cuts(-1, false));
  EXPECT_TRUE(guess.learn_cuts(-1, true));
  EXPECT_EQ(guess.late, TileGuess::kLate) << "tiles that are closed early were tried";
  const std::int32_t others[] = {0, 5, 8};
  EXPECT_TRUE(guess.learn(tiles, others, 2, false));
  EXPECT_FALSE(guess.is_likely(8));
}

/// What plans after another batch, in the same memory, with requests near. \param in_threads of some blocks
TeamOptions team_after(std::mt19937_64& random, const Forest& before, bool in_threads,
                       testing::SketchCounts& sketches) {
  TeamOptions team;
  team.before = &before;
  team.sketches = &sketches;
  if (in_threads) team.blocks = uniform(random, 6, 8);
  team.threads = 2;
  team.seed = near_seed(random, team.blocks);
  team.rows_told = uniform(random, 0, 1) == 0;
  return team;
}

// What was planned before had as many rows, so that its tiles are taken to be this one's. Of some they are, of others
// tiles begin elsewhere, another width is chosen, or they are cut.
TEST(TeamPlan, ASketchThatIsWrong) {
  testing::SketchCounts sketches;
  for (int seed = 0; seed < testing::scaled(600) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 6'000'000);
    // Few and short, or many and long: both are mostly not cut.
    const bool few = seed % 2 == 0;
    const std::int32_t requests = few ? uniform(random, 20, 80) : uniform(random, 8, 16) * 16;
    const auto any_groups = [&](std::int32_t own) {
      return grouped_forest(requests, uniform(random, 1, 20), few ? 120 : 4000, own);
    };
    const std::int32_t own = few ? uniform(random, 16, 120) : uniform(random, 1, 4) * 1000;
    const Forest before = any_groups(own);
    const Forest forest = any_groups(seed % 8 == 1 ? uniform(random, 16, 100) : own);
    const TeamOptions team = team_after(random, before, seed % 6 == 0, sketches);
    expect_same(forest, testing::shape_of(32, 8), testing::hopper_like_profile(132), team);
  }
  EXPECT_GT(sketches.taken, 0);
  EXPECT_GT(sketches.made, sketches.taken);
}

// Tiles that are cut. What was planned before had tokens of its own that tiles or cuts may differ by; and where cuts
// have just differed, a sketch waits for them.
TEST(TeamPlan, ASketchOfWhatIsCut) {
  testing::SketchCounts sketches;
  int cut = 0;
  int wrong = 0;
  for (int seed = 0; seed < testing::scaled(400) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 7'000'000);
    const std::int32_t requests = uniform(random, 16, seed % 2 == 0 ? 64 : 256);
    const std::int32_t prefixes = uniform(random, 1, 4);
    const std::int32_t shared = uniform(random, 1, 16) * 500;
    const std::int32_t own = uniform(random, 1, 12) * 16;
    const Forest before = grouped_forest(requests, prefixes, shared, own);
    const std::int32_t other = uniform(random, 0, 3);  // as mostly: rows have grown
    const Forest forest =
        grouped_forest(requests, prefixes, other == 0 ? shared / 2 : shared, other == 1 ? 4 * own : own + other);
    const Forest between = grouped_forest(requests, prefixes, shared, other == 1 ? own : 4 * own);
    TeamOptions team = team_after(random, before, seed % 4 == 0, sketches);
    if (seed % 2 == 1) team.between = &between;
    const MachineProfile profile = seed % 3 == 0 ? h200_profile() : testing::hopper_like_profile(132);
    const Plan plan = make_plan(forest, testing::shape_of(32, 8), profile, trunk_options({}));
    PlanCapacity room = room_for(plan);
    room.spans += room.items;  // so that they are sure to fit, whatever is split
    const testing::SketchCounts was = sketches;
    const TeamPlanStatus status = expect_same(forest, plan, profile, room, team);
    const int taken = sketches.taken - was.taken;
    cut += status.partials > 0 ? taken : 0;
    wrong += status.partials > 0 ? sketches.made - was.made - taken : 0;
  }
  EXPECT_GT(cut, 0);
  EXPECT_GT(wrong, 0);
  EXPECT_GT(sketches.other, 0) << "how the plan before was cut is only a guess";
}

// One tile in sixteen parts, of which the begins of fifteen are looked for, by all warps of a block but one; in more,
// of which blocks tell each other; and tiles of fewer.
TEST(TeamPlan, PartsOfASketchAsManyAsWarps) {
  const auto sketches_of = [](std::int32_t requests, std::int32_t kv_heads) {
    testing::SketchCounts sketches;
    const Forest forest = grouped_forest(requests, 1, 64'000, 16);
    for (int seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(concat(requests, " requests, ", kv_heads, " KV heads, seed ", seed));
      std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 11'000'000);
      const TeamOptions team = team_after(random, forest, seed % 2 == 0, sketches);
      const MachineProfile profile = testing::hopper_like_profile(132);
      const Plan plan = make_plan(forest, testing::shape_of(32, kv_heads), profile, trunk_options({}));
      PlanCapacity room = room_for(plan);
      room.spans += room.items;
      expect_same(forest, plan, profile, room, team);
    }
    return sketches;
  };
  const testing::SketchCounts as_many = sketches_of(32, 8);
  EXPECT_EQ(as_many.placed, 8);
  EXPECT_EQ(as_many.most_placed, 15);
  const testing::SketchCounts more = sketches_of(32, 4);
  EXPECT_EQ(more.placed, 0);
  EXPECT_EQ(more.told, 8);
  const testing::SketchCounts fewer = sketches_of(128, 8);
  EXPECT_EQ(fewer.placed, 8);
  EXPECT_LT(fewer.most_placed, 15);
}

/// Requests that share a prefix, each with tokens of its own, some with many times more.
struct UnevenRequests {
  explicit UnevenRequests(std::mt19937_64& random)
      : count(uniform(random, 30, 200)),
        shared(uniform(random, 1, 500)),
        own(uniform(random, 1, 20) * 100),
        times(uniform(random, 1, 20)),
        seed(random()) {}

  Forest forest() const { return forest(times); }
  /// \param its_times instead of `times` \param none_of each so-many-th has none of its own, and ends where others go
  /// on
  Forest forest(std::int32_t its_times, std::int32_t none_of = 1 << 30) const {
    std::mt19937_64 random(seed);
    std::vector<std::int32_t> parent = {-1};
    std::vector<std::int32_t> tokens = {shared};
    std::vector<std::int32_t> end_node;
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t its = uniform(random, 1, own) * (uniform(random, 0, 7) == 0 ? its_times : 1);
      const bool has_own = i % none_of != none_of - 1;
      end_node.push_back(has_own ? static_cast<std::int32_t>(parent.size()) : 0);
      if (!has_own) continue;
      parent.push_back(0);
      tokens.push_back(its);
    }
    return build_forest(ExplicitTree{parent, tokens, end_node});
  }

  std::int32_t count;
  std::int32_t shared;
  std::int32_t own;
  std::int32_t times;
  std::uint64_t seed;  ///< of what each has
};

// What is closed early is tried after full tiles, a sketch of which is wrong where it does better; and where the last
// plans took it, a sketch of it waits for that.
TEST(TeamPlan, ASketchOfWhatIsClosedEarly) {
  testing::SketchCounts sketches;
  for (int seed = 0; seed < testing::scaled(400) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 9'000'000);
    const UnevenRequests uneven(random);
    const Forest before = uneven.forest();
    const Forest forest = uneven.forest(seed % 2 == 0 ? uneven.times : uniform(random, 1, 20));
    const TeamOptions team = team_after(random, before, seed % 4 == 0, sketches);
    const Plan plan = make_plan(forest, testing::shape_of(32, 8), h200_profile(), trunk_options({}));
    PlanCapacity room = room_for(plan);
    room.spans += room.items;
    expect_same(forest, plan, h200_profile(), room, team);
  }
  EXPECT_GT(sketches.early, 0);
  EXPECT_GT(sketches.taken, sketches.early);
  EXPECT_GT(sketches.made, sketches.taken);
}

// Of a sketch that is late nothing is left behind where requests turn out not to be alike.
TEST(TeamPlan, ALateSketchOfWhatIsNotAlike) {
  testing::SketchCounts sketches;
  for (int seed = 0; seed < testing::scaled(200) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 10'000'000);
    const UnevenRequests uneven(random);
    const Forest before = uneven.forest();
    const Forest forest = uneven.forest(uneven.times, uniform(random, 3, 9));
    const TeamOptions team = team_after(random, before, seed % 4 == 0, sketches);
    expect_same(forest, testing::shape_of(32, 8), h200_profile(), team);
  }
  EXPECT_EQ(sketches.taken, 0);
}

// More rows than a block has room for what all their tiles stream: each deals a share of up to 64, and tells of it.
TEST(TeamPlan, TilesThatAreShared) {
  testing::SketchCounts sketches;
  int cut = 0;
  for (int seed = 0; seed < testing::scaled(40) && !HasFailure(); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 8'000'000);
    const bool few = seed % 4 == 1;  // items: 17 tiles of one prefix, each cut in two or three, which keeps all busy
    const std::int32_t requests = few ? 544 : uniform(random, 520, 1024);
    const std::int32_t prefixes = few ? 1 : uniform(random, 1, 40);
    const std::int32_t shared = few ? uniform(random, 4, 40) * 1000 : uniform(random, 1, 16) * 500;
    const std::int32_t own = few || seed % 2 == 0 ? uniform(random, 1, 12) * 16 : uniform(random, 1, 4) * 1000;
    const Forest before = grouped_forest(requests, prefixes, shared, own);
    const Forest forest = grouped_forest(requests, seed % 5 == 0 ? 41 - prefixes : prefixes, shared, own + 1);
    TeamOptions team = team_after(random, before, true, sketches);
    team.histograms = 4;
    if (few) {  // of so many blocks some have no share, and nobody waits for these
      team.blocks = 16;
      team.threads = 1;
      team.last_comes_after = std::chrono::milliseconds(20);
      team.seed = near_seed(random, team.blocks);
    }
    const MachineProfile profile = few             ? testing::hopper_like_profile(17 * 8 * uniform(random, 2, 3))
                                   : seed % 3 == 0 ? h200_profile()
                                                   : testing::hopper_like_profile(132);
    const Plan plan = make_plan(forest, testing::shape_of(32, 8), profile, trunk_options({}));
    PlanCapacity room = room_for(plan);
    room.spans += room.items;  // so that sketches of cuts are sure to fit
    const int made = sketches.made;
    const TeamPlanStatus status = expect_same(forest, plan, profile, room, team);
    cut += status.partials > 0 ? sketches.made - made : 0;
  }
  EXPECT_GT(sketches.shared, 0);
  EXPECT_GT(sketches.taken, 0);
  EXPECT_GT(cut, 0);
}

// The lists of a sketch that is wrong are written before those of the plan, which are not cut either, so that there is
// no barrier of cutting between.
TEST(TeamPlan, ThreadsWriteOverASketch) {
  int wrong = 0;
  for (const std::int32_t groups : {1, 2}) {
    for (const std::int32_t own : {1000, 4000, 8000}) {
      SCOPED_TRACE(concat(groups, " groups of ", own, " tokens before"));
      const Forest before = grouped_forest(250, groups, 4000, own);
      testing::SketchCounts sketches;
      TeamOptions team;
      team.before = &before;
      team.sketches = &sketches;
      team.blocks = 7;
      team.threads = 2;
      const TeamPlanStatus status = expect_same(grouped_forest(250, 3 - groups, 4000, own), testing::shape_of(32, 8),
                                                testing::hopper_like_profile(132), team);
      wrong += status.partials == 0 ? sketches.made - sketches.taken : 0;
    }
  }
  EXPECT_GT(wrong, 0);
}

}  // namespace
}  // namespace trunkline
