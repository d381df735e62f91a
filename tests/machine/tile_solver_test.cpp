#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "trunkline/tiles.hpp"

namespace trunkline {
namespace {

using testing::expect_error;

// 100 SMs of 164 KiB; 1 MB must be in flight.
MachineProfile gpu() {
  MachineProfile profile = generic_cpu_profile(1);
  profile.latency_us = 0.5;
  profile.read_bytes_per_us = 2e6;
  profile.gpu = {100, 164 << 10, 163 << 10, 65536, 255, 2048, 32};
  return profile;
}

TEST(TileSolver, CountsWhatATileTakes) {
  const TileFit fit = fit_tile(gpu(), {}, {64, 32});
  EXPECT_EQ(fit.shared_bytes, 64 * 256 + 32 * 256 + 64 * 512);
  EXPECT_EQ(fit.threads, 128);
  // A warp's 16 rows: O 128 and S 32 columns of 4 bytes, Q and P of 2, over 32 threads of 4-byte registers.
  EXPECT_EQ(fit.registers_per_thread, 16 * (128 + 32) * 6 / 128 + 40);
  EXPECT_FALSE(fit.compiled);
  EXPECT_EQ(fit.ctas_per_sm, 2);  // 57 KiB each with the system's
  EXPECT_STREQ(fit.limited_by, "shared memory");
  EXPECT_EQ(fit.bytes_in_flight, 100 * 2 * 32 * 256);
  EXPECT_EQ(fit.bytes_needed, 1000000);
  EXPECT_TRUE(fit.feasible());
}

TEST(TileSolver, NamesEachConstraint) {
  EXPECT_EQ(fit_tile(gpu(), {}, {8, 16}).violated, TileConstraint::kPowerOfTwo);
  EXPECT_EQ(fit_tile(gpu(), {}, {64, 48}).violated, TileConstraint::kPowerOfTwo);

  const TileFit wide = fit_tile(gpu(), {}, {256, 16});
  EXPECT_EQ(wide.violated, TileConstraint::kSharedMemory);
  EXPECT_EQ(wide.reason, "needs 196 KiB of shared memory; a CTA has at most 163 KiB");

  const TileFit longest = fit_tile(gpu(), {}, {16, 256});
  EXPECT_EQ(longest.violated, TileConstraint::kRegistersPerThread);
  EXPECT_EQ(longest.reason, "needs 328 registers a thread; at most 255 exist");

  // One CTA of 8 warps in 100 KiB.
  const TileFit idle = fit_tile(gpu(), {}, {128, 16});
  EXPECT_EQ(idle.violated, TileConstraint::kBytesInFlight);
  EXPECT_EQ(idle.reason, "100 SMs x 1 CTAs (by shared memory) keep 400 KiB in flight; L x B is 976 KiB");

  MachineProfile roomy = gpu();
  roomy.gpu.shared_bytes_per_sm = roomy.gpu.shared_bytes_per_cta = 1 << 20;
  const TileFit crowded = fit_tile(roomy, {}, {256, 16});
  EXPECT_EQ(crowded.violated, TileConstraint::kRegistersPerSm);
  EXPECT_EQ(crowded.reason, "512 threads of 148 registers exceed an SM's registers");
}

TEST(TileSolver, CompiledFiguresTakeThePlaceOfEstimates) {
  TileKernel kernel;
  kernel.compiled = {{{64, 32}, 250, 0}, {{16, 256}, 200, 12345}, {{16, 128}, 256, 0}};
  const TileFit heavy = fit_tile(gpu(), kernel, {64, 32});
  EXPECT_TRUE(heavy.compiled);
  EXPECT_EQ(heavy.registers_per_thread, 250);
  EXPECT_EQ(heavy.shared_bytes, 56 << 10);
  const TileFit light = fit_tile(gpu(), kernel, {16, 256});
  EXPECT_TRUE(light.feasible()) << light.reason;
  EXPECT_EQ(light.shared_bytes, 12345);
  EXPECT_EQ(fit_tile(gpu(), kernel, {16, 128}).violated, TileConstraint::kRegistersPerThread);
  EXPECT_FALSE(fit_tile(gpu(), kernel, {32, 32}).compiled);
}

TEST(TileSolver, SmallerElementsKeepFewerBytesInFlight) {
  TileKernel fp8;
  fp8.element_bytes = 1;
  const TileFit narrow = fit_tile(gpu(), fp8, {64, 16});
  EXPECT_EQ(narrow.violated, TileConstraint::kBytesInFlight);
  EXPECT_LT(narrow.bytes_in_flight, fit_tile(gpu(), {}, {64, 16}).bytes_in_flight);
}

TEST(TileSolver, ListsAllPowersOfTwo) {
  const std::vector<TileFit> fits = solve_tiles(gpu());
  ASSERT_EQ(fits.size(), 25u);
  EXPECT_EQ(fits.front().tile, (TileShape{16, 16}));
  EXPECT_EQ(fits[1].tile, (TileShape{16, 32}));
  EXPECT_EQ(fits.back().tile, (TileShape{256, 256}));
  for (const TileFit& fit : fits) EXPECT_FALSE(fit.reason.empty());
}

// The solver is monotone, however well constants are known: more latency or bandwidth never makes a tile feasible, more
// shared memory or registers never makes one infeasible.
TEST(TileSolver, IsMonotone) {
  MachineProfile slower = gpu();
  slower.latency_us *= 1.5;
  MachineProfile larger = gpu();
  larger.gpu.shared_bytes_per_sm *= 2;
  larger.gpu.registers_per_sm *= 2;
  const std::vector<TileFit> base = solve_tiles(gpu());
  const std::vector<TileFit> needing_more = solve_tiles(slower);
  const std::vector<TileFit> having_more = solve_tiles(larger);
  int lost = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    EXPECT_LE(needing_more[i].feasible(), base[i].feasible());
    EXPECT_LE(base[i].feasible(), having_more[i].feasible());
    lost += base[i].feasible() && !needing_more[i].feasible() ? 1 : 0;
  }
  EXPECT_GT(lost, 0);
}

TEST(TileSolver, NeedsLimitsAndLatency) {
  MachineProfile cpu = generic_cpu_profile(1);
  expect_error(ErrorCode::kInvalidArgument, "profile.gpu.sms is 0; deriving tiles needs it", [&] { solve_tiles(cpu); });
  MachineProfile unknown = gpu();
  unknown.latency_us = 0;
  expect_error(ErrorCode::kInvalidArgument, "profile.latency_us is 0", [&] { solve_tiles(unknown); });
}

}  // namespace
}  // namespace trunkline
