// Handles that are NULL, closed, replaced, of another kind or made up give errors; so do two threads at once.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "c_case.hpp"
#include "exec/attention_case.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::testing {
namespace {

class CHandles : public ::testing::Test {
 protected:
  CHandles()
      : paged_(lay_out_pages(tree_from_levels("1,3/40,20"), 16, 1)),
        test_(make_shape(2, 4, 64, 16), paged_.view()),
        batch_(test_.batch()),
        shape_(c_shape(test_.shape())) {}

  PagedBatch paged_;
  AttentionCase test_;
  CBatch batch_;
  trunkline_shape shape_;
};

TEST_F(CHandles, NullIsRefusedAndDestroyedInPeace) {
  auto info = c_struct<trunkline_forest_info>();
  expect_failure(trunkline_forest_get_info(nullptr, &info), TRUNKLINE_BAD_HANDLE, "the forest handle is NULL");
  expect_failure(trunkline_cpu_run(nullptr, nullptr, nullptr, 0), TRUNKLINE_BAD_HANDLE, "CPU executor handle is NULL");
  expect_failure(trunkline_cuda_run(nullptr, nullptr, nullptr, nullptr), TRUNKLINE_BAD_HANDLE, "CUDA executor");
  EXPECT_OK(trunkline_text_destroy(nullptr));
  EXPECT_OK(trunkline_profile_destroy(nullptr));
  EXPECT_OK(trunkline_forest_destroy(nullptr));
  EXPECT_OK(trunkline_planner_destroy(nullptr));
  EXPECT_OK(trunkline_plan_destroy(nullptr));
  EXPECT_OK(trunkline_live_batch_destroy(nullptr));
  EXPECT_OK(trunkline_live_planner_destroy(nullptr));
  EXPECT_OK(trunkline_async_planner_destroy(nullptr));
  EXPECT_OK(trunkline_workers_destroy(nullptr));
  EXPECT_OK(trunkline_cpu_destroy(nullptr));
  EXPECT_OK(trunkline_cuda_destroy(nullptr));
  EXPECT_OK(trunkline_cuda_planner_destroy(nullptr));
}

TEST_F(CHandles, NullOutputsAreRefused) {
  expect_failure(trunkline_forest_create(nullptr), TRUNKLINE_INVALID_ARGUMENT, "forest is NULL");
  expect_failure(trunkline_workers_create(1, nullptr), TRUNKLINE_INVALID_ARGUMENT, "workers is NULL");
  expect_failure(trunkline_profile_generic_cpu(1, nullptr), TRUNKLINE_INVALID_ARGUMENT, "profile is NULL");
}

TEST_F(CHandles, ClosedHandlesAreFoundOut) {
  CForest forest;
  ASSERT_OK(trunkline_forest_create(forest.out()));
  trunkline_forest* const closed = forest;
  ASSERT_OK(trunkline_forest_destroy(forest.let_go()));
  auto info = c_struct<trunkline_forest_info>();
  expect_failure(trunkline_forest_get_info(closed, &info), TRUNKLINE_BAD_HANDLE, "closed");
  expect_failure(trunkline_forest_destroy(closed), TRUNKLINE_BAD_HANDLE, "closed");
  // Whoever gets the place next is not taken for it.
  CForest next;
  ASSERT_OK(trunkline_forest_create(next.out()));
  EXPECT_NE(static_cast<trunkline_forest*>(next), closed);
  expect_failure(trunkline_forest_build(closed, &batch_.batch, 0), TRUNKLINE_BAD_HANDLE, "closed");
}

TEST_F(CHandles, OtherKindsAndNonsenseAreFoundOut) {
  CForest forest;
  ASSERT_OK(trunkline_forest_create(forest.out()));
  auto* const other = reinterpret_cast<trunkline_planner*>(static_cast<trunkline_forest*>(forest));
  const trunkline_plan* plan = nullptr;
  expect_failure(trunkline_planner_plan(other, forest, &shape_, nullptr, &plan), TRUNKLINE_BAD_HANDLE,
                 "planner handle");
  auto info = c_struct<trunkline_forest_info>();
  const auto bits = reinterpret_cast<std::uint64_t>(static_cast<trunkline_forest*>(forest));
  const std::vector<std::uint64_t> made_up = {1,
                                              0xFF,
                                              ~std::uint64_t{0},
                                              reinterpret_cast<std::uint64_t>(&info),
                                              bits + 1,
                                              bits + 0x100,
                                              bits + (1ULL << 32),
                                              bits + (2ULL << 32),
                                              bits | 0xFFFFFF00,
                                              bits ^ (1ULL << 63)};
  for (const std::uint64_t value : made_up) {
    expect_failure(trunkline_forest_get_info(reinterpret_cast<trunkline_forest*>(value), &info), TRUNKLINE_BAD_HANDLE,
                   "forest handle");
  }
  EXPECT_OK(trunkline_forest_get_info(forest, &info));
}

TEST_F(CHandles, APlannersPlanEndsWithItsNextOneAndWithIt) {
  CServing serving(&batch_.batch);
  const trunkline_plan* first = nullptr;
  const trunkline_plan* second = nullptr;
  auto info = c_struct<trunkline_plan_info>();
  ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &first));
  expect_failure(trunkline_plan_destroy(const_cast<trunkline_plan*>(first)), TRUNKLINE_INVALID_ARGUMENT,
                 "belongs to a planner");
  CPlan copy;
  ASSERT_OK(trunkline_plan_copy(first, copy.out()));
  ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &second));
  expect_failure(trunkline_plan_get_info(first, &info), TRUNKLINE_BAD_HANDLE, "replaced");
  EXPECT_OK(trunkline_plan_get_info(second, &info));
  const std::uint64_t epoch = info.epoch;
  EXPECT_OK(trunkline_plan_get_info(copy, &info));
  EXPECT_LT(info.epoch, epoch);

  // A call with bad arguments leaves it; after an error of planning there is none.
  const trunkline_plan* none = second;
  trunkline_shape wrong = shape_;
  wrong.struct_size = 3;
  EXPECT_EQ(trunkline_planner_plan(serving.planner, serving.forest, &wrong, nullptr, &none),
            TRUNKLINE_INVALID_ARGUMENT);
  EXPECT_EQ(none, second);
  EXPECT_OK(trunkline_plan_get_info(second, &info));
  wrong = shape_;
  wrong.head_dim_qk = wrong.head_dim_v = 80;
  expect_failure(trunkline_planner_plan(serving.planner, serving.forest, &wrong, nullptr, &none), TRUNKLINE_UNSUPPORTED,
                 "head_dim_qk and head_dim_v are 80; supported: 64, 128, 256");
  EXPECT_EQ(none, nullptr);
  expect_failure(trunkline_plan_get_info(second, &info), TRUNKLINE_BAD_HANDLE, "replaced");

  ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &first));
  ASSERT_OK(trunkline_planner_destroy(serving.planner.let_go()));
  expect_failure(trunkline_plan_get_info(first, &info), TRUNKLINE_BAD_HANDLE, "closed");
}

TEST_F(CHandles, ARunAfterItsPlanHasEndedIsRefused) {
  CServing serving(&batch_.batch);
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &plan));
  std::size_t bytes = 0;
  ASSERT_OK(trunkline_cpu_workspace_bytes(serving.cpu, plan, 3, &bytes));
  AlignedWorkspace workspace(bytes);
  void* const memory = workspace.bytes().data();
  test_.collect([&](const AttentionArgs& args) {
    const CLayer layer(test_.shape(), test_.batch(), args);
    expect_failure(trunkline_cpu_run(serving.cpu, &layer.layer, memory, bytes), TRUNKLINE_WORKSPACE, "not resolved");
    EXPECT_OK(trunkline_cpu_resolve(serving.cpu, plan, &batch_.batch, memory, bytes));
    EXPECT_OK(trunkline_cpu_run(serving.cpu, &layer.layer, memory, bytes));
    EXPECT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &plan));
    expect_failure(trunkline_cpu_run(serving.cpu, &layer.layer, memory, bytes), TRUNKLINE_BAD_HANDLE, "replaced");
  });
}

TEST_F(CHandles, ObjectsKeepWhatTheyNeed) {
  CServing serving(&batch_.batch);
  ASSERT_OK(trunkline_workers_destroy(serving.workers.let_go()));
  ASSERT_OK(trunkline_profile_destroy(serving.profile.let_go()));
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &plan));
  CPlan copy;
  ASSERT_OK(trunkline_plan_copy(plan, copy.out()));
  ASSERT_OK(trunkline_planner_destroy(serving.planner.let_go()));
  ASSERT_OK(trunkline_forest_destroy(serving.forest.let_go()));
  std::size_t bytes = 0;
  ASSERT_OK(trunkline_cpu_workspace_bytes(serving.cpu, copy, 3, &bytes));
  AlignedWorkspace workspace(bytes);
  ASSERT_OK(trunkline_cpu_resolve(serving.cpu, copy, &batch_.batch, workspace.bytes().data(), bytes));
  const AttentionOutput output = test_.collect([&](const AttentionArgs& args) {
    const CLayer layer(test_.shape(), test_.batch(), args);
    EXPECT_OK(trunkline_cpu_run(serving.cpu, &layer.layer, workspace.bytes().data(), bytes));
  });
  EXPECT_TRUE(test_.matches(output, kFloatTolerance));
}

/// Threads of an engine that can be stopped in the middle of a run.
struct StoppedGroup {
  std::atomic<bool> inside{false};
  std::atomic<bool> go_on{false};

  static void run(void* context, void (*function)(void*, std::int32_t), void* argument) {
    auto& group = *static_cast<StoppedGroup*>(context);
    group.inside = true;
    while (!group.go_on) std::this_thread::yield();
    function(argument, 0);
  }
};

TEST_F(CHandles, TwoThreadsAtOnceAreRefused) {
  StoppedGroup stopped;
  auto group = c_struct<trunkline_thread_group>();
  group.context = &stopped;
  group.run = StoppedGroup::run;
  group.size = 1;
  CServing serving(&batch_.batch);
  CWorkers workers;
  CCpu cpu;
  ASSERT_OK(trunkline_workers_from_thread_group(&group, workers.out()));
  ASSERT_OK(trunkline_cpu_create(workers, nullptr, cpu.out()));
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &plan));
  std::size_t bytes = 0;
  ASSERT_OK(trunkline_cpu_workspace_bytes(cpu, plan, 3, &bytes));
  AlignedWorkspace workspace(bytes);
  ASSERT_OK(trunkline_cpu_resolve(cpu, plan, &batch_.batch, workspace.bytes().data(), bytes));
  const AttentionOutput output = test_.collect([&](const AttentionArgs& args) {
    const CLayer layer(test_.shape(), test_.batch(), args);
    std::thread running([&] { EXPECT_OK(trunkline_cpu_run(cpu, &layer.layer, workspace.bytes().data(), bytes)); });
    while (!stopped.inside) std::this_thread::yield();
    // A run on the same workers, another plan in the place of the one that runs, and its end.
    expect_failure(trunkline_cpu_run(cpu, &layer.layer, workspace.bytes().data(), bytes), TRUNKLINE_BUSY, "workers");
    const trunkline_plan* next = nullptr;
    expect_failure(trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &next), TRUNKLINE_BUSY,
                   "plan is in use");
    expect_failure(trunkline_planner_destroy(serving.planner), TRUNKLINE_BUSY, "plan is in use");
    expect_failure(trunkline_cpu_destroy(cpu), TRUNKLINE_BUSY, "CPU executor is in use");
    auto info = c_struct<trunkline_plan_info>();
    EXPECT_OK(trunkline_plan_get_info(plan, &info)) << "reading is shared";
    stopped.go_on = true;
    running.join();
  });
  EXPECT_TRUE(test_.matches(output, kFloatTolerance));
}

// Threads that open, use, and close handles of one table, and one that all share.
TEST_F(CHandles, ManyThreads) {
  CServing serving(&batch_.batch);
  std::atomic<int> planned{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        CForest mine;
        ASSERT_OK(trunkline_forest_create(mine.out()));
        ASSERT_OK(trunkline_forest_build(mine, &batch_.batch, TRUNKLINE_TRUST_IDS));
        const trunkline_plan* plan = nullptr;
        const trunkline_status status = trunkline_planner_plan(serving.planner, mine, &shape_, nullptr, &plan);
        if (status == TRUNKLINE_OK) {
          ++planned;
        } else {
          EXPECT_EQ(status, TRUNKLINE_BUSY) << trunkline_last_error();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(planned, 0);
}

TEST_F(CHandles, MoreThanOneChunkOfThem) {
  std::vector<trunkline_forest*> forests(700);
  for (trunkline_forest*& forest : forests) ASSERT_OK(trunkline_forest_create(&forest));
  for (trunkline_forest* forest : forests) EXPECT_OK(trunkline_forest_destroy(forest));
  for (trunkline_forest* forest : forests) EXPECT_EQ(trunkline_forest_destroy(forest), TRUNKLINE_BAD_HANDLE);
}

}  // namespace
}  // namespace trunkline::testing
