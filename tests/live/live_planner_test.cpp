// When a plan is kept, and when it is made anew.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "trunkline/live.hpp"

namespace trunkline::testing {
namespace {

constexpr AttentionShape kShape = AttentionShape::uniform(8, 2, 64, 16);

/// Requests with pages of their own.
class PlannedBatch {
 public:
  PlannedBatch() : live_({.page_size = 16, .num_pages = 1 << 20}) {}

  RequestId join(std::int32_t kv_len) {
    std::vector<std::int32_t> pages;
    for (std::int32_t begin = 0; begin < kv_len; begin += 16) pages.push_back(next_page_++);
    NewRequest request;
    request.kv_len = kv_len;
    request.pages = std::span<const std::int32_t>(pages);
    return live_.join(request);
  }
  /// Grows each row by so many tokens.
  void grow(const std::vector<std::int32_t>& tokens) {
    std::vector<std::int32_t> kv_lens;
    std::vector<std::int32_t> indptr = {0};
    std::vector<std::int32_t> pages;
    for (std::int32_t row = 0; row < live_.rows(); ++row) {
      const RequestId id = live_.request(row);
      kv_lens.push_back(live_.kv_len(id) + tokens[static_cast<std::size_t>(row)]);
      auto held = static_cast<std::int32_t>(live_.request_pages(id).size());
      for (; held * 16 < kv_lens.back(); ++held) pages.push_back(next_page_++);
      indptr.push_back(static_cast<std::int32_t>(pages.size()));
    }
    live_.advance(kv_lens, {indptr, std::span<const std::int32_t>(pages)});
  }
  LiveBatch& live() { return live_; }

 private:
  LiveBatch live_;
  std::int32_t next_page_ = 0;
};

TEST(LivePlanner, KeepsItsPlanWhileAllGrowAlike) {
  PlannedBatch batch;
  for (int i = 0; i < 8; ++i) batch.join(1000);
  LivePlanner planner(generic_cpu_profile(4), kShape);
  const std::uint64_t epoch = planner.plan(batch.live()).epoch;
  EXPECT_EQ(planner.source(), PlanSource::kMembership);
  for (int step = 0; step < 300; ++step) {
    batch.grow(std::vector<std::int32_t>(8, 1));
    EXPECT_EQ(planner.plan(batch.live()).epoch, epoch);
    EXPECT_EQ(planner.source(), PlanSource::kReused);
  }
  EXPECT_EQ(planner.counts().reused, 300);
  EXPECT_EQ(planner.counts().steps, 301);
}

/// Workers that read as fast together as each by itself, so that what a plan costs is its longest worker.
MachineProfile independent_workers(std::int32_t workers) {
  MachineProfile profile = generic_cpu_profile(workers);
  profile.read_bytes_per_us = 1e4 * workers;
  profile.worker_read_bytes_per_us = 0;
  profile.cache_bytes_per_us = 0;
  return profile;
}

// 4 requests of 2 heads each are a task for each of 8 workers.
TEST(LivePlanner, PlansAnewWhenOneRequestOutgrowsTheOthers) {
  PlannedBatch batch;
  for (int i = 0; i < 4; ++i) batch.join(1000);
  LivePlanner planner(independent_workers(8), kShape);
  planner.plan(batch.live());
  int steps = 0;
  while (planner.source() != PlanSource::kGrowth) {
    batch.grow({10, 0, 0, 0});
    planner.plan(batch.live());
    ASSERT_LT(++steps, 40);
  }
  // 1.1 (4000 + t) / 4 = 1000 + t at t = 138; a little later, as items cost more than their tokens.
  EXPECT_GE(steps, 13);
  EXPECT_LE(steps, 20);
  EXPECT_EQ(planner.counts().growth, 1);
}

TEST(LivePlanner, ALooserLimitPlansLater) {
  int steps[2] = {0, 0};
  for (int loose = 0; loose < 2; ++loose) {
    PlannedBatch batch;
    for (int i = 0; i < 4; ++i) batch.join(1000);
    LivePlanOptions options;
    if (loose == 1) options.growth_limit = 1.3;
    LivePlanner planner(independent_workers(8), kShape, options);
    planner.plan(batch.live());
    while (planner.source() != PlanSource::kGrowth && ++steps[loose] < 100) {
      batch.grow({10, 0, 0, 0});
      planner.plan(batch.live());
    }
  }
  EXPECT_GT(steps[1], 2 * steps[0]);
}

// A plan that cannot be balanced is not made anew at every step.
TEST(LivePlanner, OneLongRequestIsNoReasonByItself) {
  PlannedBatch batch;
  batch.join(200);
  for (int i = 0; i < 3; ++i) batch.join(20);
  LivePlanOptions options;
  options.plan.split = KvSplit::kNone;
  LivePlanner planner(generic_cpu_profile(16), kShape, options);
  planner.plan(batch.live());
  for (int step = 0; step < 50; ++step) {
    batch.grow({1, 1, 1, 1});
    planner.plan(batch.live());
  }
  EXPECT_EQ(planner.counts().reused, 50);
}

TEST(LivePlanner, PlansAnewWhenAPlanReadsTokensThatAreGone) {
  PlannedBatch batch;
  const RequestId only = batch.join(40'000);
  LivePlanner planner(generic_cpu_profile(8), kShape);
  const Plan& cut = planner.plan(batch.live());
  ASSERT_GT(cut.items.size(), 1U);
  batch.live().truncate(only, 39'999);
  planner.plan(batch.live());
  EXPECT_EQ(planner.source(), PlanSource::kReused);
  batch.live().truncate(only, 100);
  validate_plan(planner.plan(batch.live()), batch.live().forest());
  EXPECT_EQ(planner.source(), PlanSource::kTruncated);
}

// Plans name slots: one that was made before rows were reordered stays right, and the validator says so.
TEST(LivePlanner, ReusesAPlanWhoseRowsWereReordered) {
  PlannedBatch batch;
  const RequestId parent = batch.join(100);
  batch.live().fork(parent);
  batch.live().set_queries(batch.join(40), 3);
  LivePlanner planner(generic_cpu_profile(4), kShape);
  const std::vector<Query> queries = planner.plan(batch.live()).queries;
  batch.live().reorder(std::vector<std::int32_t>{2, 0, 1});
  const Plan& plan = planner.plan(batch.live());
  EXPECT_EQ(planner.source(), PlanSource::kReused);
  EXPECT_EQ(plan.queries, queries);
  EXPECT_EQ(find_plan_violation(plan, batch.live().forest()), std::nullopt);
}

TEST(LivePlanner, EditsUntilTooManyHaveComeAndGone) {
  PlannedBatch batch;
  std::vector<RequestId> requests;
  for (int i = 0; i < 10; ++i) requests.push_back(batch.join(100));
  LivePlanOptions options;
  options.edit_share = 0.35;
  LivePlanner planner(generic_cpu_profile(4), kShape, options);
  planner.plan(batch.live());
  const auto source_after = [&](auto&& event) {
    event();
    planner.plan(batch.live());
    return planner.source();
  };
  EXPECT_EQ(source_after([&] { batch.live().leave(requests[9]); }), PlanSource::kEdited);
  EXPECT_EQ(source_after([&] { batch.grow(std::vector<std::int32_t>(9, 1)); }), PlanSource::kReused);
  EXPECT_EQ(source_after([&] { batch.join(3000); }), PlanSource::kEdited);
  EXPECT_EQ(source_after([&] { batch.join(100); }), PlanSource::kEdited);
  validate_plan(planner.plan(batch.live()), batch.live().forest());
  EXPECT_EQ(source_after([&] { batch.join(100); }), PlanSource::kMembership);
  EXPECT_EQ(planner.counts().edited, 3);
}

// Kernels with tiles of two halves have no such tile without a first half.
TEST(LivePlanner, EditsKeepAFirstHalf) {
  MachineProfile machine = generic_cpu_profile(1);
  machine.device = Device::kCuda;
  machine.half_rows = 64;
  machine.tiles = {{64, 64}, {128, 64}};
  AttentionShape shape = AttentionShape::uniform(32, 8, 128, 16);
  shape.device = Device::kCuda;
  PlannedBatch batch;
  std::vector<RequestId> requests;
  for (int i = 0; i < 32; ++i) requests.push_back(batch.join(100));
  LivePlanOptions options;
  options.edit_share = 1;
  options.plan.policy = Policy::kTrunk;
  options.plan.policies.trunk_rows = 128;
  LivePlanner planner(machine, shape, options);
  ASSERT_EQ(planner.plan(batch.live()).items.front().first_half, 16);
  for (int i = 0; i < 16; ++i) batch.live().leave(requests[static_cast<std::size_t>(i)]);
  const Plan& plan = planner.plan(batch.live());
  ASSERT_EQ(planner.source(), PlanSource::kEdited);
  for (const WorkItem& item : plan.items) EXPECT_TRUE(item.tile.m < 128 || item.first_half > 0);
  validate_plan(plan, batch.live().forest());
}

TEST(LivePlanner, TriesAgainAfterAnError) {
  PlannedBatch batch;
  const RequestId first = batch.join(100);
  LivePlanOptions options;
  options.plan.capacity.queries = 1;
  LivePlanner planner(generic_cpu_profile(2), kShape, options);
  planner.plan(batch.live());
  const RequestId second = batch.join(100);
  expect_error(ErrorCode::kWorkspace, "capacity.queries is 1", [&] { planner.plan(batch.live()); });
  batch.live().leave(second);
  EXPECT_EQ(planner.plan(batch.live()).queries.front().slot, first.slot);
}

TEST(LivePlanner, BadArgumentsAreRefused) {
  expect_error(ErrorCode::kInvalidArgument, "growth_limit is 0.5",
               [] { LivePlanner(generic_cpu_profile(2), kShape, {.growth_limit = 0.5}); });
  expect_error(ErrorCode::kInvalidArgument, "edit_share is -1",
               [] { LivePlanner(generic_cpu_profile(2), kShape, {.edit_share = -1}); });
  const double nan = std::nan("");
  expect_error(ErrorCode::kInvalidArgument, "growth_limit is nan",
               [nan] { LivePlanner(generic_cpu_profile(2), kShape, {.growth_limit = nan}); });
  expect_error(ErrorCode::kInvalidArgument, "edit_share is nan",
               [nan] { LivePlanner(generic_cpu_profile(2), kShape, {.edit_share = nan}); });
  AttentionShape shape = kShape;
  shape.page_size = 8;
  LivePlanner planner(generic_cpu_profile(2), shape);
  LiveBatch batch({.page_size = 16, .num_pages = 1});
  expect_error(ErrorCode::kInvalidArgument, "batch has page size 16; the planner's shape has 8",
               [&] { planner.plan(batch); });
}

}  // namespace
}  // namespace trunkline::testing
