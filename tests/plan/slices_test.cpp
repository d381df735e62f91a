// Slices: what tiles of halves stream stays in step with the kernels' stages.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/check.hpp"
#include "base/host_device.hpp"
#include "exec/cuda/kernels/sm90/forward/config.hpp"
#include "plan/plan_oracle.hpp"
#include "plan/slices.hpp"
#include "plan/test_cases.hpp"
#include "support/policies.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

Plan trunk_plan(const Forest& forest, const MachineProfile& profile, std::int32_t rows, KvSplit split) {
  PlanOptions options = testing::options_of(Policy::kTrunk, split);
  options.policies.trunk_rows = rows;
  const Plan plan = make_plan(forest, testing::shape_of(32, 8), profile, options);
  EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
  return plan;
}

TEST(Slices, AreThoseOfTheHopperKernels) {
  const MachineProfile profile = testing::hopper_like_profile(132);
  for (const std::int32_t page_size : {1, 2, 8, 12, 16, 20, 24, 32, 40, 48, 256}) {
    SCOPED_TRACE(page_size);
    const Slices slices = Slices::of(profile, page_size);
    EXPECT_EQ(slices.tokens, cuda::sm90::kSliceTokens);
    EXPECT_EQ(slices.aligned, cuda::sm90::alignment_of_tma_tile(page_size));
  }
}

/// Stages of an item that its halves compute together, of four slices of 16 tokens each: one that both see counts
/// twice.
std::int32_t computed_stages(const Plan& plan, const WorkItem& item, std::int32_t kv_len) {
  std::int32_t computed = 0;
  std::int32_t slices = 0;
  std::array<bool, 2> seen = {};
  const auto end_stage = [&] {
    computed += static_cast<std::int32_t>(std::ranges::count(seen, true));
    seen = {};
    slices = 0;
  };
  for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
    const KvSpan& span = plan.spans[static_cast<std::size_t>(i)];
    const bool both = (span.flags & kSpanBothHalves) != 0;
    const bool first =
        both || plan.masks[static_cast<std::size_t>(span.mask)].words[0] < (std::uint64_t{1} << item.first_half);
    const std::int32_t end = span.open_ended() ? kv_len : span.end;
    for (std::int32_t begin = span.begin; begin < end; begin += 16 - begin % 16) {
      seen[first ? 0 : 1] = true;
      if (both) seen[1] = true;
      if (++slices == 4) end_stage();
    }
  }
  if (slices > 0) end_stage();
  return computed;
}

// Leaves end within a slice, or begin in one too. Were that to put what follows out of step with slices and stages,
// both halves would compute most stages; whether the tile is cut or not.
TEST(Slices, HalvesKeepInStepWithStages) {
  constexpr std::int32_t kLeaf = 1333;
  const MachineProfile profile = testing::hopper_like_profile(132);
  for (const std::int32_t root : {8192, 8193}) {
    const std::int32_t least = 2 * ceil_div(root, 64) + 32 * ceil_div(root % 16 + kLeaf, 16) / 4;
    for (const KvSplit split : {KvSplit::kNone, KvSplit::kBalance}) {
      SCOPED_TRACE(concat(root, ", ", name_of(split)));
      const Plan plan = trunk_plan(testing::star_forest(root, 32, kLeaf), profile, 128, split);
      const auto items = static_cast<std::int32_t>(plan.items.size());
      ASSERT_EQ(items > 1, split == KvSplit::kBalance);
      std::int32_t computed = 0;
      for (const WorkItem& item : plan.items) {
        ASSERT_EQ(item.first_half, 16);
        computed += computed_stages(plan, item, root + kLeaf);
      }
      for (const KvSpan& span : plan.spans) EXPECT_TRUE(span.begin % 16 == 0 || span.begin == root) << span.begin;
      EXPECT_GE(computed, least);
      EXPECT_LE(computed, least + 2 * items);  // where items and lists end
    }
  }
}

// Kernels without halves have no slices: their parts are as even as granules of 64 tokens allow.
TEST(Slices, WithoutThemCutsCountTokens) {
  MachineProfile profile = testing::hopper_like_profile(132);
  profile.half_rows = 0;
  const Plan plan = trunk_plan(testing::star_forest(2048, 16, 1), profile, 64, KvSplit::kBalance);
  ASSERT_GT(plan.items.size(), 1u);
  for (const WorkItem& item : plan.items) {
    std::int32_t tokens = 0;
    for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
      const KvSpan& span = plan.spans[static_cast<std::size_t>(i)];
      tokens += (span.open_ended() ? 2049 : span.end) - span.begin;
    }
    EXPECT_GE(tokens, 128);
    EXPECT_LE(tokens, 192);
  }
}

}  // namespace
}  // namespace trunkline
