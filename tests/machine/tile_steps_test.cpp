#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "plan/tiles.hpp"
#include "support/expect_error.hpp"
#include "trunkline/tiles.hpp"

namespace trunkline {
namespace {

using testing::expect_error;

// Time in whole tiles, with a cost per tile, so that both the padding of the last one and their number count.
TileSweep made_up(std::vector<std::int32_t> n, std::vector<std::int32_t> tokens, double per_token, double per_tile) {
  TileSweep sweep{std::move(n), std::move(tokens), {}};
  for (const std::int32_t width : sweep.n) {
    for (const std::int32_t length : sweep.tokens) {
      const double tiles = std::ceil(static_cast<double>(length) / width);
      sweep.us.push_back(tiles * (width * per_token + per_tile));
    }
  }
  return sweep;
}

// PAT, section 5.2: at length 192, n = 128 leaves half of its second tile empty, and n = 64 none.
TEST(TileSteps, LengthOfThreeSmallTilesPrefersThem) {
  const TileSweep sweep = made_up({64, 128}, {192}, 0.01, 0);
  const std::vector<TileStep> steps = derive_tile_steps(sweep);
  EXPECT_EQ(steps, (std::vector<TileStep>{{0, 64}}));
}

TEST(TileSteps, EquivalentTilesGiveTheLargest) {
  const TileSweep sweep = made_up({16, 32, 64, 128}, {128, 256, 512}, 0.01, 0);
  EXPECT_EQ(derive_tile_steps(sweep), (std::vector<TileStep>{{0, 128}}));
}

TEST(TileSteps, ChoicesGrowUntilTheyAreStable) {
  // Padding of at most one tile is below 2 % from 50 tiles on.
  const TileSweep sweep = made_up({16, 32, 64}, {16, 48, 80, 100, 208, 1000, 1072, 8000, 8200}, 0.01, 0);
  const std::vector<TileStep> steps = derive_tile_steps(sweep);
  ASSERT_GE(steps.size(), 2u);
  EXPECT_EQ(steps.front(), (TileStep{0, 16}));
  EXPECT_EQ(steps.back().n, 64);
  for (std::size_t i = 1; i < steps.size(); ++i) {
    EXPECT_GT(steps[i].tokens, steps[i - 1].tokens);
    EXPECT_GT(steps[i].n, steps[i - 1].n);
  }
}

TEST(TileSteps, ToleranceDecidesWhatIsEquivalent) {
  const TileSweep sweep{{64, 128}, {256}, {100, 103}};
  EXPECT_EQ(derive_tile_steps(sweep, 0.02), (std::vector<TileStep>{{0, 64}}));
  EXPECT_EQ(derive_tile_steps(sweep, 0.05), (std::vector<TileStep>{{0, 128}}));
  EXPECT_EQ(derive_tile_steps({{64, 128}, {256}, {100, 100}}, 0), (std::vector<TileStep>{{0, 128}}));
}

TEST(TileSteps, OctaveWithoutAnEquivalentTakesTheLeastTime) {
  // At 130 the first is best, at 250 the second; the third is nowhere, and the second loses less.
  const TileSweep sweep{{32, 64, 128}, {130, 250}, {100, 130, 110, 100, 140, 140}};
  EXPECT_EQ(derive_tile_steps(sweep), (std::vector<TileStep>{{0, 64}}));
}

TEST(TileSteps, ThresholdsAreWhereOctavesBegin) {
  const TileSweep sweep{{32, 64}, {40, 100, 200}, {1, 1, 1, 2, 2, 1}};
  EXPECT_EQ(derive_tile_steps(sweep), (std::vector<TileStep>{{0, 32}, {128, 64}}));
}

TEST(TileSteps, TheSelectorFollowsThem) {
  MachineProfile profile = generic_cpu_profile(1);
  profile.tiles = {{16, 32}, {16, 64}};
  profile.tile_steps = derive_tile_steps({{32, 64}, {40, 100, 200}, {1, 1, 1, 2, 2, 1}});
  TileTable tiles;
  tiles.reset(profile, 1);
  EXPECT_EQ(tiles.tile(1, 127, 0).n, 32);
  EXPECT_EQ(tiles.tile(1, 128, 0).n, 64);
  EXPECT_EQ(tiles.tile(1, 100000, 0).n, 64);
}

TEST(TileSteps, BadSweepsAreNamed) {
  const auto refuse = [](const TileSweep& sweep, const char* message) {
    expect_error(ErrorCode::kInvalidArgument, message, [&] { derive_tile_steps(sweep); });
  };
  refuse({{}, {1}, {}}, "sweep.n is empty");
  refuse({{16}, {}, {}}, "sweep.tokens is empty");
  refuse({{32, 16}, {64}, {1, 1}}, "sweep.n[1] is 16; they must be >= 1 and rise");
  refuse({{16}, {0}, {1}}, "sweep.tokens[0] is 0");
  refuse({{16}, {64, 128}, {1}}, "sweep.us has 1 times for 1 n and 2 lengths");
  refuse({{16}, {64}, {0}}, "sweep.us[0] is 0; times must be > 0");
  expect_error(ErrorCode::kInvalidArgument, "tolerance is -1", [] { derive_tile_steps({{16}, {64}, {1}}, -1); });
}

}  // namespace
}  // namespace trunkline
