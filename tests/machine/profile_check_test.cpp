#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "machine/profile_check.hpp"
#include "trunkline/machine.hpp"

namespace trunkline {
namespace {

template <class Change>
std::string fault_of(Change change) {
  MachineProfile profile = generic_cpu_profile(2);
  change(profile);
  return profile_fault(profile).value_or("");
}

TEST(ProfileCheck, TakesTheGenericProfile) {
  EXPECT_EQ(fault_of([](MachineProfile&) {}), "");
}

TEST(ProfileCheck, NamesNumbers) {
  EXPECT_EQ(fault_of([](auto& p) { p.workers = 0; }), "workers is 0; it must be > 0");
  EXPECT_EQ(fault_of([](auto& p) { p.read_bytes_per_us = -4; }), "read_bytes_per_us is -4; it must be > 0");
  EXPECT_EQ(fault_of([](auto& p) { p.flops_per_us = std::nan(""); }), "flops_per_us is nan; it must be > 0");
  EXPECT_EQ(fault_of([](auto& p) { p.launch_us = HUGE_VAL; }), "launch_us is inf; it must be >= 0");
  EXPECT_EQ(fault_of([](auto& p) { p.memory_overlap = 1.5; }), "memory_overlap is 1.5; shares are 0 to 1");
  EXPECT_EQ(fault_of([](auto& p) { p.flop_efficiency = 0; }),
            "flop_efficiency is 0; this share must be > 0 and at most 1");
  EXPECT_EQ(fault_of([](auto& p) { p.half_rows = -64; }), "half_rows is -64; it must be >= 0");
  EXPECT_EQ(fault_of([](auto& p) { p.llc_bytes = -1; }), "llc_bytes is -1; it must be >= 0");
  EXPECT_EQ(fault_of([](auto& p) { p.padding.gamma = -0.1; }), "padding.gamma is -0.1; it must be >= 0");
  EXPECT_EQ(fault_of([](auto& p) { p.gpu.sms = -1; }), "gpu.sms is -1; it must be >= 0");
}

TEST(ProfileCheck, NamesChunks) {
  EXPECT_EQ(fault_of([](auto& p) { p.slice_tokens = p.slice_alignment = p.common_chunk_tokens = 32; }), "");
  EXPECT_EQ(fault_of([](auto& p) { p.slice_tokens = 24; }),
            "slice_tokens is 24; supported are powers of two from 1 to 64");
  EXPECT_EQ(fault_of([](auto& p) { p.slice_tokens = 128; }),
            "slice_tokens is 128; supported are powers of two from 1 to 64");
  EXPECT_EQ(fault_of([](auto& p) { p.slice_alignment = 32; }),
            "slice_alignment is 32; supported are powers of two from 1 to 16");
  EXPECT_EQ(fault_of([](auto& p) { p.half_chunk_tokens = 8; }),
            "half_chunk_tokens is 8; supported are powers of two from 16 to 4096");
  EXPECT_EQ(fault_of([](auto& p) { p.common_chunk_tokens = 0; }), "common_chunk_tokens is 0; it must be > 0");
  EXPECT_EQ(fault_of([](auto& p) { p.half_change_us = 20; }), "half_change_us is 20; supported are up to 16");
}

TEST(ProfileCheck, NamesTiles) {
  EXPECT_EQ(fault_of([](auto& p) { p.tiles.clear(); }), "tiles is empty; planning needs at least one tile");
  EXPECT_EQ(fault_of([](auto& p) { p.tiles[1].n = 0; }), "tiles[1] is 32 x 0; both must be from 1 to 4096");
}

TEST(ProfileCheck, NamesTileSteps) {
  EXPECT_EQ(fault_of([](auto& p) { p.tile_steps = {{0, 16}, {32, 32}, {256, 128}}; }), "");
  EXPECT_EQ(fault_of([](auto& p) {
              p.tile_steps = {{16, 16}};
            }),
            "tile_steps[0] is from 16 tokens on n = 16; the first step must be from 0 tokens on");
  const std::string order = "; steps must rise, and be from powers of two on";
  EXPECT_EQ(fault_of([](auto& p) {
              p.tile_steps = {{0, 16}, {48, 32}};
            }),
            "tile_steps[1] is from 48 tokens on n = 32" + order);
  EXPECT_EQ(fault_of([](auto& p) {
              p.tile_steps = {{0, 16}, {64, 32}, {64, 64}};
            }),
            "tile_steps[2] is from 64 tokens on n = 64" + order);
  EXPECT_EQ(fault_of([](auto& p) {
              p.tile_steps = {{0, 0}};
            }),
            "tile_steps[0] is from 0 tokens on n = 0; n must be >= 1");
}

TEST(ProfileCheck, NamesCostTable) {
  const CostTable good{128, {4, 16}, {64, 256}, {1, 2, 3, 4}};
  EXPECT_EQ(fault_of([&](auto& p) { p.cost_table = good; }), "");
  const auto fault = [&](auto change) {
    return fault_of([&](MachineProfile& p) {
      p.cost_table = good;
      change(p.cost_table);
    });
  };
  EXPECT_EQ(fault([](auto& t) { t.head_dim = 0; }), "cost_table.head_dim is 0; it must be > 0");
  EXPECT_EQ(fault([](auto& t) { t.rows[1] = 4; }), "cost_table.rows[1] is 4; they must be >= 1 and rise");
  EXPECT_EQ(fault([](auto& t) { t.tokens[0] = 0; }), "cost_table.tokens[0] is 0; they must be >= 1 and rise");
  EXPECT_EQ(fault([](auto& t) { t.us[2] = 0; }), "cost_table.us[1][0] is 0; times must be > 0");
  EXPECT_EQ(fault([](auto& t) { t.us.pop_back(); }),
            "cost_table.us has 3 times for 2 rows and 2 tokens; one for each pair is needed");
  EXPECT_EQ(fault([](auto& t) { t.rows.clear(); }),
            "cost_table.us has 4 times for 0 rows and 2 tokens; one for each pair is needed");
}

}  // namespace
}  // namespace trunkline
