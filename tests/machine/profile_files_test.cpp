// The profiles that ship with the project.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/profile_file.hpp"
#include "trunkline/tiles.hpp"

namespace trunkline {
namespace {

std::string path_of(const std::string& name) {
  return std::string(TRUNKLINE_MACHINES) + "/" + name + ".json";
}

std::vector<std::string> gpus() {
  return {"a100-80gb", "h100-sxm", "h200-sxm"};
}

TEST(ShippedProfiles, AllLoadAndSayWhereFiguresComeFrom) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRUNKLINE_MACHINES)) {
    SCOPED_TRACE(entry.path());
    FigureSources sources;
    const MachineProfile profile = load_profile(entry.path().string(), &sources);
    EXPECT_GT(sources.size(), 18u);
    for (const auto& [figure, source] : sources) EXPECT_GT(source.size(), 4u) << figure;
    const MachineProfile again = parse_profile(profile_to_json(profile, sources), "again");
    EXPECT_EQ(profile_to_json(again, sources), profile_to_json(profile, sources));
    ++files;
  }
  EXPECT_EQ(files, 4u);
}

TEST(ShippedProfiles, GpuFiguresArePlausible) {
  for (const std::string& name : gpus()) {
    SCOPED_TRACE(name);
    const MachineProfile gpu = load_profile(path_of(name));
    EXPECT_EQ(gpu.device, Device::kCuda);
    EXPECT_EQ(gpu.workers, gpu.gpu.sms);
    EXPECT_GT(gpu.cache_bytes_per_us, gpu.read_bytes_per_us);
    EXPECT_GT(gpu.read_bytes_per_us, 1e6);  // 1 TB/s
    EXPECT_LT(gpu.read_bytes_per_us, 4.8e6);
    EXPECT_GT(gpu.flops_per_us, 300e6);
    EXPECT_LT(gpu.flops_per_us, 990e6);
    EXPECT_GT(gpu.latency_us, 0.25);
    EXPECT_LT(gpu.latency_us, 1);
    EXPECT_GT(gpu.launch_us, 2);
    EXPECT_LT(gpu.launch_us, 6);
    EXPECT_GE(gpu.llc_bytes, std::int64_t{40} << 20);
    EXPECT_LE(gpu.gpu.shared_bytes_per_cta, gpu.gpu.shared_bytes_per_sm);
    for (const TileShape trunk : {TileShape{64, 64}, TileShape{128, 64}}) {
      EXPECT_NE(std::find(gpu.tiles.begin(), gpu.tiles.end(), trunk), gpu.tiles.end()) << trunk.m;
    }
    for (const TileShape tile : gpu.tiles) {
      const TileFit fit = fit_tile(gpu, {}, tile);
      EXPECT_TRUE(fit.feasible()) << tile.m << " x " << tile.n << ": " << fit.reason;
    }
  }
}

// Clocks of one SM for a token of one KV head, 16-bit elements, head size 128.
TEST(ShippedProfiles, AnH200TokenTakesTheMeasuredClocks) {
  const MachineProfile h200 = load_profile(path_of("h200-sxm"));
  constexpr double kClocksPerUs = 1755;
  constexpr double kTokenBytes = 512;
  const double memory = kTokenBytes * h200.workers / h200.read_bytes_per_us * kClocksPerUs;
  const double cache = kTokenBytes * h200.workers / h200.cache_bytes_per_us * kClocksPerUs;
  const double compute = 64.0 * 4 * 128 * h200.workers / (h200.flops_per_us * h200.flop_efficiency) * kClocksPerUs;
  EXPECT_NEAR(compute, 15, 0.2);
  EXPECT_NEAR(cache, 14, 1.1);
  EXPECT_NEAR(memory + (1 - h200.memory_overlap) * compute, 28, 1);
}

TEST(ShippedProfiles, NewerGpusAreFaster) {
  const MachineProfile a100 = load_profile(path_of("a100-80gb"));
  const MachineProfile h100 = load_profile(path_of("h100-sxm"));
  const MachineProfile h200 = load_profile(path_of("h200-sxm"));
  EXPECT_LT(a100.read_bytes_per_us, h100.read_bytes_per_us);
  EXPECT_LT(h100.read_bytes_per_us, h200.read_bytes_per_us);
  EXPECT_LT(a100.flops_per_us, h100.flops_per_us);
  EXPECT_EQ(h100.flops_per_us, h200.flops_per_us);  // the same processor
  EXPECT_EQ(a100.half_rows, 0);
  EXPECT_EQ(h200.half_rows, 64);
  EXPECT_EQ(h200.half_change_us, 0.15);
  EXPECT_EQ(h200.slice_tokens, 16);
}

TEST(ShippedProfiles, TheGenericCpuHasTheFittedFigures) {
  const MachineProfile file = load_profile(path_of("generic-cpu"));
  const MachineProfile built = generic_cpu_profile(file.workers);
  EXPECT_EQ(file.device, Device::kCpu);
  EXPECT_EQ(file.read_bytes_per_us, built.read_bytes_per_us);
  EXPECT_EQ(file.launch_us, built.launch_us);
  EXPECT_EQ(file.item_us, built.item_us);
  EXPECT_EQ(file.partial_us_per_kib, built.partial_us_per_kib);
  EXPECT_EQ(file.memory_overlap, built.memory_overlap);
  EXPECT_EQ(file.flop_efficiency, built.flop_efficiency);
  EXPECT_EQ(file.tiles, built.tiles);
}

TEST(ShippedProfiles, PlansAreMadeForEach) {
  const std::vector<std::int32_t> parent = {-1, 0, 0, 0};
  const std::vector<std::int32_t> tokens = {4096, 300, 20, 0};
  const std::vector<std::int32_t> end_node = {1, 2, 3, 3, 0};
  const Forest forest = build_forest(ExplicitTree{parent, tokens, end_node});
  for (const char* name : {"a100-80gb", "h100-sxm", "h200-sxm", "generic-cpu"}) {
    SCOPED_TRACE(name);
    AttentionShape shape = AttentionShape::uniform(32, 8, 128, 16);
    const Plan plan = make_plan(forest, shape, load_profile(path_of(name)));
    EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
    EXPECT_GE(plan.statistics.predicted_us, plan.statistics.bound_us * 0.99);
  }
}

}  // namespace
}  // namespace trunkline
