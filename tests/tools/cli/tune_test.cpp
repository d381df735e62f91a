#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "cli/probe_batch.hpp"
#include "cli/tile_times.hpp"
#include "cli/tune_fit.hpp"
#include "cli/tune_tiles.hpp"
#include "cli/tuned.hpp"
#include "cli/tuned_device.hpp"
#include "plan/cost_model.hpp"
#include "support/expect_error.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/profile_file.hpp"

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
    model.reset(profile, AttentionShape::uniform(group * kProbeKvHeads, kProbeKvHeads, kProbeHeadDim, 16));
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

/// The cost model's times of items in tiles of 16 to 64 rows.
CostTable modelled_on_gpu(const MachineProfile& profile, bool from_cache) {
  CostTable table{kProbeHeadDim, {1, 16, 32, 64}, {1024, 4096}, {}};
  for (const std::int32_t tile_rows : {16, 16, 32, 64}) {
    CostModel model;
    model.reset(profile, AttentionShape::uniform(4 * kProbeKvHeads, kProbeKvHeads, kProbeHeadDim, 16, DType::kF16,
                                                 Device::kCuda));
    TaskCosts costs = model.tasks();
    costs.memory_per_token = from_cache ? costs.reread_per_token : costs.first_read_per_token;
    for (const std::int32_t tokens : table.tokens) {
      table.us.push_back(static_cast<double>(costs.task(tokens, tokens, tile_rows, 0)) / 1e3);
    }
  }
  return table;
}

TEST(TuneFit, OnAGpuItemsInTheCacheTellArithmeticFromWhatHidesIt) {
  for (const auto& [overlap, efficiency] : {std::pair{0.6, 0.46}, std::pair{0.9, 0.3}}) {
    MachineProfile profile = load_profile(TRUNKLINE_DATA "/machines/h200-sxm.json");
    profile.tiles = {{16, 64}, {32, 64}, {64, 64}};
    profile.half_rows = 0;
    profile.memory_overlap = overlap;
    profile.flop_efficiency = efficiency;
    profile.cost_table = modelled_on_gpu(profile, false);
    const CostTable cached = modelled_on_gpu(profile, true);
    profile.memory_overlap = profile.flop_efficiency = 1;
    EXPECT_LT(fit_overlap(profile, cached), 1.01);
    EXPECT_NEAR(profile.memory_overlap, overlap, 0.051);
    EXPECT_NEAR(profile.flop_efficiency, efficiency, 0.021);
  }
}

/// Rows cost by the tile they are padded to; where a tile is too low for them, runs are read several times.
TileTimes padded_times() {
  TileTimes times{{1, 16, 64}, {64, 1024}, {{16, 64}, {32, 64}, {64, 64}}, {}};
  for (const std::int32_t rows : times.rows) {
    for (const std::int32_t tokens : times.tokens) {
      for (const TileShape tile : times.tiles) {
        const int passes = (rows + tile.m - 1) / tile.m;
        times.us.push_back(tokens * (0.01 + 0.0005 * tile.m) * passes);
      }
    }
  }
  return times;
}

TEST(TileTimes, RoundingUpAndItsTable) {
  const TileTimes times = padded_times();
  EXPECT_EQ(rounded_up_tile(times.tiles, 1), 0U);
  EXPECT_EQ(rounded_up_tile(times.tiles, 17), 1U);
  EXPECT_EQ(rounded_up_tile(times.tiles, 64), 2U);
  EXPECT_EQ(rounded_up_tile(times.tiles, 100), 2U) << "the tallest, several times";
  const CostTable table = cost_table_of(times, 128);
  EXPECT_EQ(table.us, (std::vector<double>{times.at(0, 0, 0), times.at(0, 1, 0), times.at(1, 0, 0), times.at(1, 1, 0),
                                           times.at(2, 0, 2), times.at(2, 1, 2)}));
  EXPECT_EQ(rounding_up(times).fastest, 6U);
}

TEST(TileTimes, ALossOfRoundingUpIsSaid) {
  TileTimes times = padded_times();
  times.us[1] = times.us[0] / 2;  // one row of 64 tokens is fastest in 32 rows
  const RoundingUp rounding = rounding_up(times);
  EXPECT_EQ(rounding.points, 6U);
  EXPECT_EQ(rounding.fastest, 5U);
  EXPECT_DOUBLE_EQ(rounding.max_lost, 1.0);
  std::ostringstream out;
  print_tile_times(out, times);
  EXPECT_NE(out.str().find("at 5 of 6 points, and loses at most 100.0 %"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("n = 64 from 0 tokens on (one leaf"), std::string::npos) << out.str();
}

TEST(TileTimes, ThresholdsFollowTheTallestTilesOfSeveralN) {
  const TileTimes times{{64}, {64, 1024}, {{64, 32}, {64, 64}}, {1, 2, 8, 6}};
  EXPECT_EQ(tile_steps_of(times), (std::vector<TileStep>{{0, 32}, {1024, 64}}));
}

TEST(TunedDevice, CostsFollowFromTimes) {
  CostTimes times;
  times.empty_us = 6;
  times.one_token_us = 8.5;
  times.few_items_us = 9;
  times.few_tasks = 1;
  times.many_items_us = 16;
  times.many_tasks = 8;  // one more a microsecond
  // Two halves instead of a whole: an item more, and 2 x (4 + 0.5 a query).
  times.narrow = {1, 30, 40, 1, 2};
  times.wide = {17, 30, 56, 1, 2};
  times.query_partial_kib = 2;
  times.short_us = 100;
  times.long_us = 300;
  times.longer_bytes = 5e6;
  const DeviceCosts costs = costs_of(times);
  EXPECT_DOUBLE_EQ(costs.item_us, 1);
  EXPECT_DOUBLE_EQ(costs.launch_us, 5);
  EXPECT_DOUBLE_EQ(costs.fill_us, 2.5);
  EXPECT_DOUBLE_EQ(costs.cut_us, 4);
  EXPECT_DOUBLE_EQ(costs.partial_us_per_kib, 0.25);
  EXPECT_DOUBLE_EQ(costs.worker_read_bytes_per_us, 25000);
}

TEST(TunedDevice, NoiseGivesNoFigureThatCannotBePlannedWith) {
  CostTimes times;
  times.empty_us = 6;
  times.one_token_us = 5.9;
  times.few_items_us = 9;
  times.few_tasks = 1;
  times.many_items_us = 8.9;
  times.many_tasks = 8;
  times.narrow = {1, 30, 29, 1, 2};
  times.wide = {16, 31, 30, 1, 2};
  times.query_partial_kib = 2;
  times.short_us = 100;
  times.long_us = 99;
  const DeviceCosts costs = costs_of(times);
  for (const double figure :
       {costs.item_us, costs.fill_us, costs.cut_us, costs.partial_us_per_kib, costs.worker_read_bytes_per_us}) {
    EXPECT_DOUBLE_EQ(figure, 0);
  }
  EXPECT_DOUBLE_EQ(costs.launch_us, 6);
}

TEST(TunedDevice, EveryFigureHasASourceAndTheFileIsReadBack) {
  const MachineProfile known = load_profile(TRUNKLINE_DATA "/machines/h200-sxm.json");
  DeviceMeasurement measured;
  measured.stream = {5.8, 4.5e6};
  measured.cache_bytes_per_us = 7e6;
  measured.transfers = {{64, 0.45}, {1024, 0.46}, {65536, 2.3}, {1 << 20, 31}};
  measured.costs = {4.4, 3, 1.6, 5, 0.05, 24000};
  measured.tile_times = padded_times();
  const Tuned tuned = tuned_device(known, "a GPU", measured);
  FigureSources sources;
  const MachineProfile read = parse_profile(profile_to_json(tuned.profile, tuned.sources), "text", &sources);
  EXPECT_EQ(read.name, "a GPU");
  EXPECT_EQ(read.device, Device::kCuda);
  EXPECT_EQ(read.cost_table.us, cost_table_of(padded_times(), 128).us);
  EXPECT_EQ(read.cut_us, 5);
  for (const char* figure :
       {"read_bytes_per_us", "cache_bytes_per_us", "latency_us", "worker_read_bytes_per_us", "launch_us", "fill_us",
        "item_us", "cut_us", "partial_us_per_kib", "cost_table", "tile_steps"}) {
    EXPECT_EQ(sources.at(figure).rfind("measured", 0), 0U) << figure;
  }
  EXPECT_NE(sources.at("flops_per_us").find("not measured"), std::string::npos);
  std::ostringstream out;
  print_tuned(out, tuned);
  for (const char* words : {"a GPU", "one worker alone", "by one CTA on every SM", "rounded up"}) {
    EXPECT_NE(out.str().find(words), std::string::npos) << words;
  }
}

TEST(TunedDevice, ACacheThatIsNoFasterThanMemoryIsNone) {
  DeviceMeasurement measured;
  measured.stream = {5.8, 4.5e6};
  measured.cache_bytes_per_us = 4e6;
  measured.transfers = {{64, 0.45}, {1 << 20, 31}};
  measured.tile_times = padded_times();
  const Tuned tuned = tuned_device(load_profile(TRUNKLINE_DATA "/machines/h200-sxm.json"), "a GPU", measured);
  EXPECT_EQ(tuned.profile.cache_bytes_per_us, 0);
}

TEST(ProbeBatch, GivesEveryWorkerOfAGpuTheSame) {
  MachineProfile profile = load_profile(TRUNKLINE_DATA "/machines/h200-sxm.json");
  profile.workers = 264;
  profile.tiles = {{16, 64}, {32, 64}, {64, 64}};
  profile.tile_steps.clear();
  profile.half_rows = 0;
  Planner planner(profile);
  const ProbeBatch whole({33, 1024, 16}, 4, {}, planner);
  EXPECT_EQ(whole.tasks_each(264), 1);
  EXPECT_EQ(whole.plan().partials, 0);
  EXPECT_EQ(whole.plan().items.front().tile.m, 64);
  PlanOptions in_two;
  in_two.policies.node_chunk = 512;
  const ProbeBatch cut({33, 1024, 16}, 4, in_two, planner);
  EXPECT_EQ(cut.tasks_each(264), 2);
  EXPECT_EQ(cut.plan().partials, 2 * 33 * 16);
  PlanOptions low;
  low.tile = {16, 64};
  const ProbeBatch lower({33, 1024, 16}, 4, low, planner);
  EXPECT_EQ(lower.tasks_each(264), 4) << "16 queries of 4 rows in tiles of 16 rows";
  EXPECT_EQ(balanced_roots(4096, 264) * kProbeKvHeads % 264, 0);
  for (const ProbeBatch* probe : {&whole, &cut, &lower}) {
    for (const WorkItem& item : probe->plan().items) EXPECT_EQ(item.spans.size(), 1);
  }
}

TEST(ProbeBatch, ItemsThatReadTheSameTokensAreEvenToo) {
  MachineProfile profile = load_profile(TRUNKLINE_DATA "/machines/h200-sxm.json");
  profile.workers = 264;
  profile.tiles = {{16, 64}, {64, 64}};
  Planner planner(profile);
  PlanOptions options;
  options.tile = {64, 64};
  const ProbeBatch probe({1, 4096, 66 * 16}, 4, options, planner);
  EXPECT_EQ(probe.tasks_each(264), 2);
  EXPECT_EQ(probe.plan().partials, 0);
}

TEST(ProbeBatch, ARequestWithoutTokensKeepsItsSpan) {
  Planner planner(generic_cpu_profile(2));
  const ProbeBatch empty({1, 0, 1}, 4, {}, planner);
  ASSERT_EQ(empty.plan().items.size(), 1U);
  EXPECT_EQ(empty.plan().items.front().spans.size(), 1);
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
