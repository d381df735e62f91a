#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "cli/tune_fit.hpp"
#include "cli/tune_probe.hpp"
#include "cli/tune_tiles.hpp"
#include "plan/cost_model.hpp"
#include "support/expect_error.hpp"
#include "trunkline/machine.hpp"

namespace trunkline::cli {
namespace {

/// A machine whose items take what the cost model says.
MachineProfile modelled(double overlap, double efficiency) {
  MachineProfile profile = generic_cpu_profile(2);
  profile.memory_overlap = overlap;
  profile.flop_efficiency = efficiency;
  CostTable& table = profile.cost_table;
  table.head_dim = kProbeHeadDim;
  table.rows = {1, 4, 16, 64, 128};
  table.tokens = {64, 1024, 4096};
  for (const std::int32_t rows : table.rows) {
    CostModel model;
    const std::int32_t group = probe_group(rows);
    model.reset(profile, {group * kProbeKvHeads, kProbeKvHeads, kProbeHeadDim, 16, DType::kF16, Device::kCpu});
    TaskCosts costs = model.tasks();
    costs.memory_per_token = costs.first_read_per_token;
    for (const std::int32_t tokens : table.tokens) {
      const Nanoseconds time = costs.task(tokens, tokens, costs.rows(rows / group, 0, false), 0);
      table.us.push_back(static_cast<double>(time) / 1e3);
    }
  }
  return profile;
}

TEST(TuneFit, FindsTheMachineBehindATable) {
  for (const auto& [overlap, efficiency] : {std::pair{0.8, 0.7}, std::pair{0.35, 0.4}, std::pair{1.0, 0.95}}) {
    MachineProfile profile = modelled(overlap, efficiency);
    profile.memory_overlap = 0.5;
    profile.flop_efficiency = 0.5;
    EXPECT_LT(fit_overlap(profile), 1.01);
    EXPECT_NEAR(profile.memory_overlap, overlap, 0.051);
    EXPECT_NEAR(profile.flop_efficiency, efficiency, 0.011);
  }
}

TEST(TuneFit, OneOutlierHardlyMovesIt) {
  MachineProfile profile = modelled(0.8, 0.7);
  profile.cost_table.us[10] *= 5;
  fit_overlap(profile);
  EXPECT_NEAR(profile.flop_efficiency, 0.7, 0.05);
}

TEST(TuneTiles, SaysWhatIsMissingFromAProfile) {
  std::ostringstream out;
  testing::expect_error(ErrorCode::kInvalidArgument, "profile.gpu.sms is 0; deriving tiles needs it",
                        [&] { print_tiles(out, generic_cpu_profile(1)); });
}

TEST(TuneTiles, PrintsEveryTileAndEveryDifference) {
  MachineProfile profile = generic_cpu_profile(1);
  profile.latency_us = 0.5;
  profile.read_bytes_per_us = 2e6;
  profile.gpu = {100, 164 << 10, 163 << 10, 65536, 255, 2048, 32};
  std::ostringstream out;
  print_tiles(out, profile);
  const std::string text = out.str();
  for (const char* part :
       {"16x16 ", "256x256 ", "977 KiB must be in flight", "no: (1) shared memory", "no: (1) registers a thread",
        "no: (2) bytes in flight", "Differences from PAT A100:", "128x64, only derived: "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(text.find("Differences from PAT H100:"), std::string::npos) << "no more shared memory than an A100";
}

}  // namespace
}  // namespace trunkline::cli
