// Same inputs and plan, same bits: for any number of workers, run after run, and with one workspace for many layers.
#include <gtest/gtest.h>

#include "attention_case.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

TEST(Determinism, SameBitsForAnyNumberOfWorkers) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("2,4,24/300,100,40"), 16, 3);
  const Batch batch = paged.view();
  const AttentionCase test(make_shape(4, 4, 64, 16), batch);
  PlanOptions options;
  options.policy = Policy::kNode;
  options.split = experimental::kSplitMean;
  const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(8), options);
  ASSERT_GT(plan.partials, 0);
  ThreadPool one(1);
  const AttentionOutput expected = test.run_cpu(plan, one);
  for (const int threads : {2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      for (const MergeMode merge : {MergeMode::kFused, MergeMode::kSeparate}) {
        const AttentionOutput output = test.run_cpu(plan, pool, {merge, CpuIsa::kAvx512});
        ASSERT_EQ(output.o, expected.o) << threads << " threads";
        ASSERT_EQ(output.lse, expected.lse) << threads << " threads";
      }
    }
  }
}

// The counters of the fused merge must be back at zero after each run.
TEST(Determinism, OneResolveServesManyLayers) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,12/500,40"), 16, 3);
  const Batch batch = paged.view();
  const AttentionCase test(make_shape(2, 4, 64, 16), batch);
  PlanOptions options;
  options.policy = Policy::kNode;
  const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), options);
  ASSERT_GT(plan.partials, 0);
  const CpuExecutor executor(test_workers());
  AlignedWorkspace workspace(executor.workspace_bytes(plan, batch.rows()));
  executor.resolve(plan, batch, workspace.bytes());
  for (int layer = 0; layer < 30; ++layer) {
    const AttentionOutput output =
        test.collect([&](const AttentionArgs& args) { executor.run(args, workspace.bytes()); });
    ASSERT_TRUE(test.matches(output, kFloatTolerance)) << "layer " << layer;
  }
}

TEST(ThreadPool, RunsEveryWorkerOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    std::vector<int> calls(static_cast<std::size_t>(threads));
    for (int round = 0; round < 200; ++round) {
      pool.run([](void* context,
                  int worker) { ++(*static_cast<std::vector<int>*>(context))[static_cast<std::size_t>(worker)]; },
               &calls);
    }
    EXPECT_EQ(calls, std::vector<int>(static_cast<std::size_t>(threads), 200));
  }
}

}  // namespace
}  // namespace trunkline::testing
