// A forked child: what the parent's threads are needed for is refused, what is made there works, nothing hangs.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "c_case.hpp"
#include "exec/attention_case.hpp"
#include "support/forked.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::testing {
namespace {

class CForks : public ::testing::Test {
 protected:
  CForks()
      : paged_(lay_out_pages(tree_from_levels("1,3/40,20"), 16, 1)),
        test_(make_shape(2, 4, 64, 16), paged_.view()),
        batch_(test_.batch()),
        shape_(c_shape(test_.shape())) {}

  /// Plans and runs with handles made here.
  bool serves() {
    CServing serving(&batch_.batch);
    const trunkline_plan* plan = nullptr;
    std::size_t bytes = 0;
    if (trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &plan) != TRUNKLINE_OK) return false;
    if (trunkline_cpu_workspace_bytes(serving.cpu, plan, 3, &bytes) != TRUNKLINE_OK) return false;
    AlignedWorkspace workspace(bytes);
    void* const memory = workspace.bytes().data();
    if (trunkline_cpu_resolve(serving.cpu, plan, &batch_.batch, memory, bytes) != TRUNKLINE_OK) return false;
    const AttentionOutput output = test_.collect([&](const AttentionArgs& args) {
      const CLayer layer(test_.shape(), test_.batch(), args);
      EXPECT_OK(trunkline_cpu_run(serving.cpu, &layer.layer, memory, bytes));
    });
    return static_cast<bool>(test_.matches(output, kFloatTolerance));
  }

  PagedBatch paged_;
  AttentionCase test_;
  CBatch batch_;
  trunkline_shape shape_;
};

/// BAD_HANDLE whose text says why.
bool refused(trunkline_status status) {
  return status == TRUNKLINE_BAD_HANDLE &&
         std::strstr(trunkline_last_error(), "before this process was forked") != nullptr;
}

TEST_F(CForks, WorkersAndWhatHasThemAreRefused) {
  CWorkers workers;
  CCpu cpu;
  ASSERT_OK(trunkline_workers_create(2, workers.out()));
  ASSERT_OK(trunkline_cpu_create(workers, nullptr, cpu.out()));
  EXPECT_TRUE(holds_in_a_fork([&] {
    std::int32_t size = 0;
    std::size_t bytes = 0;
    trunkline_cpu* other = nullptr;
    trunkline_profile* profile = nullptr;
    return refused(trunkline_workers_size(workers, &size)) && refused(trunkline_cpu_create(workers, nullptr, &other)) &&
           refused(trunkline_profile_measure_cpu(workers, &profile)) &&
           refused(trunkline_cpu_workspace_bytes(cpu, nullptr, 3, &bytes)) &&
           refused(trunkline_cpu_run(cpu, nullptr, nullptr, 0)) && refused(trunkline_cpu_destroy(cpu)) &&
           refused(trunkline_workers_destroy(workers));
  }));
  std::int32_t size = 0;
  EXPECT_OK(trunkline_workers_size(workers, &size)) << "the parent has them still";
}

TEST_F(CForks, AsyncPlannersAreRefused) {
  CServing serving(&batch_.batch);
  trunkline_async_planner* planner = nullptr;
  ASSERT_OK(trunkline_async_planner_create(serving.profile, &shape_, nullptr, &planner));
  EXPECT_TRUE(holds_in_a_fork([&] {
    std::int32_t done = 0;
    return refused(trunkline_async_planner_poll(planner, &done)) && refused(trunkline_async_planner_destroy(planner));
  }));
  EXPECT_OK(trunkline_async_planner_destroy(planner));
}

TEST_F(CForks, WhatHasNoThreadsGoesOn) {
  CServing serving(&batch_.batch);
  EXPECT_TRUE(holds_in_a_fork([&] {
    const trunkline_plan* plan = nullptr;
    auto info = c_struct<trunkline_forest_info>();
    return trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &plan) == TRUNKLINE_OK &&
           trunkline_forest_get_info(serving.forest, &info) == TRUNKLINE_OK && info.rows == 3 &&
           trunkline_planner_destroy(serving.planner.let_go()) == TRUNKLINE_OK;
  }));
}

/// An engine's group that stays in its run until it is told.
struct HeldGroup {
  std::atomic<bool> inside{false};
  std::atomic<bool> go_on{false};

  static void run(void* context, void (*function)(void*, std::int32_t), void* argument) {
    auto& group = *static_cast<HeldGroup*>(context);
    group.inside = true;
    while (!group.go_on) std::this_thread::yield();
    function(argument, 0);
  }
};

// A run of the parent reads the plan, in a thread that the child has not got.
TEST_F(CForks, WhatAnotherThreadIsReadingIsFree) {
  CServing serving(&batch_.batch);
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &plan));
  HeldGroup held;
  auto group = c_struct<trunkline_thread_group>();
  group.context = &held;
  group.run = HeldGroup::run;
  group.size = 1;
  CWorkers workers;
  CCpu cpu;
  ASSERT_OK(trunkline_workers_from_thread_group(&group, workers.out()));
  ASSERT_OK(trunkline_cpu_create(workers, nullptr, cpu.out()));
  std::size_t bytes = 0;
  ASSERT_OK(trunkline_cpu_workspace_bytes(cpu, plan, 3, &bytes));
  AlignedWorkspace workspace(bytes);
  ASSERT_OK(trunkline_cpu_resolve(cpu, plan, &batch_.batch, workspace.bytes().data(), bytes));
  test_.collect([&](const AttentionArgs& args) {
    const CLayer layer(test_.shape(), test_.batch(), args);
    std::thread running([&] { EXPECT_OK(trunkline_cpu_run(cpu, &layer.layer, workspace.bytes().data(), bytes)); });
    while (!held.inside) std::this_thread::yield();
    EXPECT_TRUE(holds_in_a_fork([&] {
      const trunkline_plan* next = nullptr;
      return refused(trunkline_cpu_destroy(cpu)) &&
             trunkline_planner_plan(serving.planner, serving.forest, &shape_, nullptr, &next) == TRUNKLINE_OK;
    })) << "the plan that a run of the parent reads may be replaced in the child";
    held.go_on = true;
    running.join();
  });
}

// Threads that take the table's lock all the time, so that some fork meets it taken.
TEST_F(CForks, HandlesAreMadeWhateverOtherThreadsDo) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      while (!stop) {
        trunkline_forest* forest = nullptr;
        EXPECT_OK(trunkline_forest_create(&forest));
        EXPECT_OK(trunkline_forest_destroy(forest));
      }
    });
  }
  for (int round = 0; round < 200; ++round) {
    ASSERT_TRUE(holds_in_a_fork([] {
      trunkline_forest* forest = nullptr;
      return trunkline_forest_create(&forest) == TRUNKLINE_OK && trunkline_forest_destroy(forest) == TRUNKLINE_OK;
    })) << "round "
        << round;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CForks, AChildServesWithHandlesOfItsOwn) {
  if (!kForksMayStartThreads) GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts threads";
  CServing serving(&batch_.batch);
  ASSERT_TRUE(serves());
  EXPECT_TRUE(holds_in_a_fork([&] { return serves(); }));
  EXPECT_TRUE(serves());
}

}  // namespace
}  // namespace trunkline::testing
