#include "support/policies.hpp"
#include "trunkline/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/check.hpp"
#include "plan/policies/policy_table.hpp"
#include "plan/test_cases.hpp"
#include "trunkline/error.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

using ::testing::HasSubstr;

/// The error's message, after checking its code.
template <class Function>
std::string message_of(ErrorCode code, Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

std::string shape_error(ErrorCode code, const AttentionShape& shape) {
  return message_of(code, [&] { make_plan(testing::star_forest(32, 2, 8), shape, testing::cpu_like_profile(1)); });
}

TEST(Planner, UnsupportedShapesAreNamed) {
  AttentionShape shape = testing::shape_of(32, 5);
  EXPECT_THAT(shape_error(ErrorCode::kUnsupported, shape), HasSubstr("heads are 32/5; query heads must be a multiple"));
  EXPECT_THAT(shape_error(ErrorCode::kUnsupported, testing::shape_of(130, 2)),
              HasSubstr("heads are 130/2, 65 query heads for each KV head; supported: 1 to 64"));
  EXPECT_THAT(shape_error(ErrorCode::kInvalidArgument, testing::shape_of(8, 0)), HasSubstr("heads are 8/0"));
  shape = testing::shape_of(32, 8);
  shape.head_dim_qk = shape.head_dim_v = 96;
  EXPECT_THAT(shape_error(ErrorCode::kUnsupported, shape),
              HasSubstr("head_dim_qk and head_dim_v are 96; supported: 64, 128, 256"));
  shape.head_dim_qk = 128;
  EXPECT_THAT(shape_error(ErrorCode::kUnsupported, shape), HasSubstr("head_dim_qk is 128 and head_dim_v is 96"));
  shape = testing::shape_of(32, 8);
  shape.page_size = 0;
  EXPECT_THAT(shape_error(ErrorCode::kInvalidArgument, shape), HasSubstr("page_size is 0"));
  shape = testing::shape_of(32, 8);
  shape.q_dtype = static_cast<DType>(7);
  EXPECT_THAT(shape_error(ErrorCode::kUnsupported, shape), HasSubstr("q_dtype is number 7; supported: f32, f16, bf16"));
  shape.q_dtype = DType::kBF16;
  EXPECT_THAT(shape_error(ErrorCode::kUnsupported, shape), HasSubstr("q_dtype is bf16 and kv_dtype is f16"));
  shape.kv_dtype = static_cast<DType>(7);
  EXPECT_THAT(shape_error(ErrorCode::kUnsupported, shape),
              HasSubstr("kv_dtype is number 7; supported: f32, f16, bf16, f8_e4m3, f8_e5m2"));
  EXPECT_THAT(shape_error(ErrorCode::kUnsupported, testing::shape_of(4112, 257)),
              HasSubstr("q_heads is 4112; supported: up to 4096"));
  EXPECT_NO_THROW(
      make_plan(testing::star_forest(32, 2, 8), testing::shape_of(4096, 4096), testing::cpu_like_profile(1)));
}

TEST(Planner, BytesBeyond64BitsAreRefused) {
  AttentionShape shape = testing::shape_of(4096, 4096);
  shape.head_dim_qk = shape.head_dim_v = 256;
  shape.q_dtype = shape.kv_dtype = DType::kF32;  // 2^23 bytes a token
  const PlanOptions flat = testing::options_of(Policy::kFlat, KvSplit::kNone);
  const auto plan_requests = [&](std::int32_t requests) {
    return make_plan(testing::unshared_forest(requests, 1 << 30), shape, testing::cpu_like_profile(1), flat);
  };
  EXPECT_EQ(plan_requests(1023).statistics.kv_bytes_read, std::int64_t{1023} << 53);
  EXPECT_THAT(message_of(ErrorCode::kUnsupported, [&] { plan_requests(1024); }),
              HasSubstr("reads 1099511627776 tokens of 8388608 bytes"));
}

TEST(Planner, ATileTooSmallForOneQueryIsNamed) {
  MachineProfile profile = testing::cpu_like_profile(1);
  profile.tiles = {{8, 32}};
  const std::string message = message_of(
      ErrorCode::kUnsupported, [&] { make_plan(testing::star_forest(32, 2, 8), testing::shape_of(16, 1), profile); });
  EXPECT_THAT(message, HasSubstr("largest tile has m = 8"));
}

std::string profile_error(void (*spoil)(MachineProfile&)) {
  MachineProfile profile = testing::cpu_like_profile(1);
  spoil(profile);
  return message_of(ErrorCode::kInvalidArgument, [&] { Planner planner(profile); });
}

TEST(Planner, ProfilesThatCannotBePlannedWithAreNamed) {
  EXPECT_THAT(profile_error([](MachineProfile& p) { p.workers = 0; }), HasSubstr("profile.workers is 0"));
  EXPECT_THAT(profile_error([](MachineProfile& p) { p.read_bytes_per_us = -1; }), HasSubstr("read_bytes_per_us is -1"));
  EXPECT_THAT(profile_error([](MachineProfile& p) { p.flops_per_us = 0; }), HasSubstr("flops_per_us is 0"));
  EXPECT_THAT(profile_error([](MachineProfile& p) { p.item_us = -2; }), HasSubstr("item_us is -2"));
  EXPECT_THAT(profile_error([](MachineProfile& p) { p.memory_overlap = 1.5; }), HasSubstr("memory_overlap is 1.5"));
  EXPECT_THAT(profile_error([](MachineProfile& p) { p.row_quantum = 0; }), HasSubstr("row_quantum is 0"));
  EXPECT_THAT(profile_error([](MachineProfile& p) { p.tiles.clear(); }), HasSubstr("tiles is empty"));
  EXPECT_THAT(profile_error([](MachineProfile& p) { p.tiles[1].n = 0; }), HasSubstr("tiles[1] is 32 x 0"));
}

TEST(Planner, ImpossibleOptionsAreNamed) {
  const auto plan_with = [](PlanOptions options) {
    make_plan(testing::star_forest(32, 2, 8), testing::shape_of(8, 8), testing::cpu_like_profile(1), options);
  };
  PlanOptions options;
  options.capacity.spans = -3;
  EXPECT_THAT(message_of(ErrorCode::kInvalidArgument, [&] { plan_with(options); }), HasSubstr("capacity.spans is -3"));
  std::string known;
  for (const PolicyInfo& info : policy_table()) known += concat(info.name, ", ");
  EXPECT_THAT(message_of(ErrorCode::kInvalidArgument, [] { policy_from_name("best"); }),
              HasSubstr("'best'; known are " + known + "auto"));
}

TEST(Planner, PolicyNamesRoundTrip) {
  for (const Policy policy : {Policy::kFlat, Policy::kNode, Policy::kProfit, Policy::kAuto}) {
    EXPECT_EQ(policy_from_name(name_of(policy)), policy);
  }
  EXPECT_STREQ(name_of(experimental::kSplitMean), "mean");
}

TEST(Planner, APlanThatDoesNotFitFallsBackToFlat) {
  const Forest forest = testing::star_forest(640, 10, 20);
  PlanOptions options = testing::options_of(Policy::kNode, KvSplit::kBalance);
  options.capacity = {10, 11, 11, 20};
  const MachineProfile profile = testing::cpu_like_profile(4);
  const Plan fits = make_plan(forest, testing::shape_of(32, 8), profile, options);
  EXPECT_EQ(fits.policy, Policy::kNode);
  EXPECT_EQ(fits.statistics.fallbacks, 0);

  options.capacity.partials = 19;
  const Plan fallen = make_plan(forest, testing::shape_of(32, 8), profile, options);
  EXPECT_EQ(fallen.policy, Policy::kFlat);
  EXPECT_EQ(fallen.statistics.fallbacks, 1);
  EXPECT_EQ(fallen.items.size(), 10u);
  EXPECT_EQ(fallen.statistics.kv_tokens_read, 6600);
  EXPECT_EQ(fallen.capacity.partials, 19);
  EXPECT_EQ(find_plan_violation(fallen, forest), std::nullopt);
}

TEST(Planner, FlatGivesUpItsCutsBeforeItFails) {
  const Forest forest = testing::unshared_forest(2, 100'000);
  PlanOptions options = testing::options_of(Policy::kFlat, KvSplit::kBalance);
  options.capacity.items = 2;
  const Plan plan = make_plan(forest, testing::shape_of(8, 1), testing::cpu_like_profile(16), options);
  EXPECT_EQ(plan.items.size(), 2u);
  EXPECT_EQ(plan.statistics.fallbacks, 1);
}

TEST(Planner, ACapacityThatNothingFitsIsNamed) {
  PlanOptions options;
  options.capacity.items = 9;
  const std::string message = message_of(ErrorCode::kWorkspace, [&] {
    make_plan(testing::star_forest(640, 10, 20), testing::shape_of(32, 8), testing::cpu_like_profile(4), options);
  });
  EXPECT_THAT(message, HasSubstr("needs 10 items, but capacity.items is 9"));
}

TEST(Planner, AutoIsFlatWhenNothingIsShared) {
  const Plan plan =
      make_plan(testing::unshared_forest(50, 3000), testing::shape_of(32, 8), testing::cpu_like_profile(4));
  EXPECT_EQ(plan.policy, Policy::kFlat);
  EXPECT_EQ(plan.partials, 0);
}

TEST(Planner, AutoSharesALongPrefix) {
  const Forest forest = testing::star_forest(20'000, 30, 200);
  const Plan plan = make_plan(forest, testing::shape_of(32, 8), testing::cpu_like_profile(4));
  EXPECT_NE(plan.policy, Policy::kFlat);
  EXPECT_EQ(plan.statistics.kv_tokens_read, 20'000 + 30 * 200);
}

TEST(Planner, AutoLeavesAShortPrefixAlone) {
  const Plan plan =
      make_plan(testing::star_forest(16, 3, 5000), testing::shape_of(32, 8), testing::cpu_like_profile(3));
  EXPECT_EQ(plan.policy, Policy::kFlat);
}

TEST(Planner, EpochGrowsWithEveryPlan) {
  Planner planner(testing::cpu_like_profile(2));
  const Forest forest = testing::star_forest(64, 3, 8);
  const std::uint64_t first = planner.plan(forest, testing::shape_of(8, 8)).epoch;
  EXPECT_EQ(planner.plan(forest, testing::shape_of(8, 8)).epoch, first + 1);
}

TEST(Planner, TheSmallestTileThatHoldsTheRowsWithTheLongestNTheTokensFill) {
  MachineProfile profile = testing::cpu_like_profile(1);
  profile.tiles = {{64, 32}, {16, 128}, {16, 32}, {16, 64}};  // in any order
  const auto tile_of = [&](std::int32_t requests, std::int32_t tokens) {
    return make_plan(testing::star_forest(tokens, requests, 0), testing::shape_of(32, 8), profile,
                     testing::options_of(Policy::kNode, KvSplit::kNone))
        .items[0]
        .tile;
  };
  EXPECT_EQ(tile_of(4, 10), (TileShape{16, 32}));
  EXPECT_EQ(tile_of(4, 100), (TileShape{16, 64}));
  EXPECT_EQ(tile_of(4, 128), (TileShape{16, 128}));
  EXPECT_EQ(tile_of(5, 128), (TileShape{64, 32}));
}

}  // namespace
}  // namespace trunkline
