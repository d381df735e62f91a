// Batches planned on the device end to end: the attention outputs, in graphs too, and the reports of the planner.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device_case.hpp"
#include "cuda/graph.hpp"
#include "cuda/on_device.hpp"
#include "exec/cuda/kernels/kernel_families.hpp"
#include "exec/cuda/step/workspace.hpp"
#include "exec/executor_cases.hpp"
#include "support/expect_error.hpp"
#include "support/planner_batches.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/cuda_planner.hpp"

namespace trunkline::testing {
namespace {

class CudaDevicePlans : public CudaTest {};

constexpr PlanCapacity kRoom = {.queries = 256, .items = 512, .spans = 2048, .partials = 1024};

/// The lists of a workspace, as far as the plan that is there fills them.
class PlanWords {
 public:
  PlanWords(const DeviceMemory& workspace, const cuda::WorkspaceLayout& layout, const Plan& plan) : layout_(layout) {
    bytes_.resize(workspace.size());
    workspace.download(bytes_.data());
    add(layout.counts, offsetof(ListCounts, planner), 1, "counts");
    PlanSizes sizes = sizes_of(plan);
    sizes.partials = 0;  // of partial_merges, which only fused merges read
    for_each_list(
        sizes,
        [this](const PlanListInfo& list, std::size_t offset) {
          add(offset, list.entry_bytes, list.entries, list.name);
        },
        layout);
  }
  /// \return the first list that differs, or nothing.
  std::string difference(const PlanWords& other) const {
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      if (lists_[i].second != other.lists_[i].second) return lists_[i].first;
    }
    return {};
  }

 private:
  void add(std::size_t offset, std::size_t size, std::size_t count, const char* name) {
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(offset);
    lists_.emplace_back(name, std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(size * count)));
  }

  cuda::WorkspaceLayout layout_;
  std::vector<std::byte> bytes_;
  std::vector<std::pair<std::string, std::vector<std::byte>>> lists_;
};

/// The host's plan, and the first list in which the device's plan differs from it; empty: none.
struct HostsPlan {
  Plan plan;
  std::string difference;
};

/// Uploaded and planned on the device, into two workspaces of one layout. \param planned of the planner
HostsPlan compare_with_host(CudaExecutor& executor, CudaPlanner& planner, const Batch& batch,
                            const CudaBatch& on_device, DeviceMemory& planned) {
  const AttentionShape& shape = planner.shape();
  PlanOptions options;
  options.policy = Policy::kTrunk;
  options.capacity = planner.options().capacity;
  const Plan plan = make_plan(build_forest(batch), shape, cuda_profile(0, shape), options);
  EXPECT_EQ(planned.size(), executor.workspace_bytes(plan));
  DeviceMemory uploaded(planned.size());
  executor.upload(plan, batch, uploaded.data(), uploaded.size(), nullptr);
  executor.plan(planner, on_device, planned.data(), planned.size(), nullptr);
  executor.resolve(on_device, planned.data(), nullptr);
  const cuda::KernelFamily& family = cuda::family_for(CudaKernels::kAuto, cuda_device_info(0).major, shape);
  const cuda::WorkspaceLayout layout =
      cuda::lay_out(capacities_for(plan), shape, MergeMode::kSeparate, {family.prologue_bytes()});
  const PlanWords expected(uploaded, layout, plan);
  check(cudaDeviceSynchronize());
  return {plan, PlanWords(planned, layout, plan).difference(expected)};
}

TEST_F(CudaDevicePlans, AreTheHostsBitForBit) {
  std::mt19937_64 random(21);
  constexpr std::int32_t kHeads[][2] = {{8, 4}, {8, 2}, {8, 8}, {32, 1}, {1, 16}};
  for (int round = 0; round < scaled(500); ++round) {
    SCOPED_TRACE(round);
    const RandomBatch batch = make_planner_batch(random(), round % 20 == 0 ? 1024 : (round % 4 == 0 ? 256 : 40));
    const Batch view = batch.view();
    if (view.rows() == 0) continue;
    const auto& heads = kHeads[static_cast<std::size_t>(round) % 5];
    const AttentionShape shape = on_cuda(make_shape(heads[0], heads[1], 128, view.pages.page_size()));
    const std::int32_t queries = view.total_queries();
    // One in three does not fit some list.
    const PlanCapacity room =
        round % 3 == 0 ? PlanCapacity{queries + 1, queries + 8, 2 * queries + 16, queries + 4}
                       : PlanCapacity{queries + 1, 4 * queries + 600, 64 * queries + 4096, 8 * queries + 4096};
    CudaPlanner planner(cuda_profile(0, shape), shape,
                        {.rows = view.rows(), .capacity = room, .null_page = batch.null_page});
    CudaExecutor executor;
    DeviceMemory memory(planner.memory_bytes());
    planner.bind(memory.data(), memory.size(), nullptr);
    DeviceMemory planned(executor.workspace_bytes(planner));
    DeviceBatch on(view);
    const DeviceMemory query_start(batch.query_start);
    CudaBatch on_device = on.view();
    if (!batch.query_start.empty()) on_device.query_start = query_start.as<std::int32_t>();
    const auto [plan, difference] = compare_with_host(executor, planner, view, on_device, planned);
    const CudaPlanReport report = planner.report();
    ASSERT_EQ(difference, "") << report.items << " items, " << report.spans << " spans, " << report.partials
                              << " partials, " << report.fallbacks << " fallbacks, " << report.unplanned
                              << " unplanned, " << report.bad_lengths << " bad lengths, " << report.bad_queries
                              << " bad queries; host: " << plan.items.size() << " items, " << plan.spans.size()
                              << " spans, " << plan.partials << " partials, " << plan.statistics.fallbacks
                              << " fallbacks; " << queries << " queries, " << view.rows() << " rows";
    ASSERT_EQ(planner.report().fallbacks, plan.statistics.fallbacks);
  }
}

/// Puts other requests into some rows, each of which shares less than the row shared before.
void replace_requests(std::mt19937_64& random, PagedBatch& batch) {
  const auto width = static_cast<std::size_t>(batch.width);
  std::int32_t id = *std::max_element(batch.page_ids.begin(), batch.page_ids.end());
  for (std::int32_t count = uniform(random, 1, 3); count > 0; --count) {
    const auto last = static_cast<std::int32_t>(batch.kv_lens.size()) - 1;
    const auto row = static_cast<std::size_t>(uniform(random, 0, last));
    const auto first = static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(width) - 1));
    for (std::size_t page = first; page < width; ++page) batch.page_ids[row * width + page] = ++id;
  }
}

// Consecutive batches, as in an engine, with the same sharing, or the same but for some requests.
TEST_F(CudaDevicePlans, AfterBatchesAlikeAreTheHosts) {
  std::mt19937_64 random(23);
  std::uint64_t seed = 1;
  for (int round = 0; round < scaled(40); ++round) {
    const std::int32_t rows = 4 * uniform(random, 4, round % 2 == 0 ? 80 : 275);
    const std::string shared = std::to_string(16 * uniform(random, 1, 100));
    const std::int32_t own = 16 * uniform(random, 2, 100);
    const std::string begin = round % 3 == 0 ? "" : round % 3 == 1 ? "1," : "1,4,";
    const std::string above = round % 3 == 0 ? "" : round % 3 == 1 ? shared + "," : shared + "," + shared + ",";
    const std::string levels = begin + std::to_string(rows) + "/" + above + std::to_string(own);
    SCOPED_TRACE(levels);
    const AttentionShape shape = on_cuda(make_shape(8, 2, 128, 16));
    const PlanCapacity room = {rows, 2 * rows + 1024, 32 * rows + 4096, 2 * rows + 1024};
    CudaPlanner planner(cuda_profile(0, shape), shape, {.rows = rows, .capacity = room, .growth = 0});
    CudaExecutor executor;
    DeviceMemory memory(planner.memory_bytes());
    planner.bind(memory.data(), memory.size(), nullptr);
    DeviceMemory planned(executor.workspace_bytes(planner));
    for (int step = 0; step < 7; ++step) {
      PagedBatch paged = lay_out_pages(tree_from_levels(levels), 16, seed++);
      if (round % 5 > 1 && step % 2 == 1) replace_requests(random, paged);
      if (round % 4 < 2) {
        for (std::int32_t& length : paged.kv_lens) length -= uniform(random, 0, own - 1);
      }
      const DeviceBatch on(paged.view());
      ASSERT_EQ(compare_with_host(executor, planner, paged.view(), on.view(), planned).difference, "") << step;
    }
    ASSERT_EQ(planner.report().planned, 7U);
  }
}

TEST_F(CudaDevicePlans, AttendWhateverIsShared) {
  std::mt19937_64 random(20);
  for (int round = 0; round < scaled(60); ++round) {
    SCOPED_TRACE(round);
    const RandomBatch batch = make_random_batch(random, {});
    const AttentionCase test(make_shape(2, round % 2 == 0 ? 8 : 2, 128, batch.view().pages.page_size()), batch.view());
    OnDevice on_device(test.shape(), batch.view().rows(), kRoom);
    const DeviceBatch on(batch.view());
    DeviceTensors tensors(test);
    on_device.plan(on);
    on_device.run(tensors);
    ASSERT_TRUE(test.matches(tensors.download(), tolerance_of(DType::kF16)));
    const CudaPlanReport report = on_device.report();
    EXPECT_EQ(report.kv_tokens_total, test.forest().total_tokens);
    EXPECT_EQ(report.kv_tokens_distinct, test.forest().distinct_tokens);
    EXPECT_EQ(report.planned, 1U);
    EXPECT_EQ(report.fallbacks, 0);
    EXPECT_EQ(report.unplanned, 0);
  }
}

PagedBatch laid_out(const char* levels, std::uint64_t seed) {
  return lay_out_pages(tree_from_levels(levels), 16, seed);
}

/// The same batch in a pool of so many pages, so that the tensors of cases are as large.
Batch in_pool_of(const PagedBatch& paged, std::int64_t pages) {
  Batch batch = paged.view();
  EXPECT_LE(batch.num_pages, pages);
  batch.num_pages = pages;
  return batch;
}

/// A graph of a step: plan, resolve, run.
class StepGraph {
 public:
  StepGraph(OnDevice& on_device, const DeviceBatch& batch, const DeviceTensors& tensors, std::int64_t max_queries = 0)
      : graph_(capture(on_device, batch, tensors, max_queries, stream_)) {}
  void replay() {
    graph_.launch(stream_);
    check(cudaStreamSynchronize(stream_));
  }
  std::size_t nodes() const { return graph_.nodes(); }

 private:
  static Graph capture(OnDevice& on_device, const DeviceBatch& batch, const DeviceTensors& tensors,
                       std::int64_t max_queries, cudaStream_t stream) {
    on_device.plan(batch, stream);
    check(cudaStreamSynchronize(stream));  // it has read the batch
    return Graph(stream, [&] {
      on_device.plan(batch, stream);
      on_device.run(tensors, stream, max_queries);
    });
  }

  OwnStream stream_;
  Graph graph_;
};

// Captured once: then other trees of as many rows, in other pages, rows of length 0 among them.
TEST_F(CudaDevicePlans, AGraphPlansEachBatchThatItFinds) {
  constexpr std::int64_t kPages = 1024;
  const AttentionShape shape = make_shape(2, 8, 128, 16);
  const PagedBatch widest = laid_out("12/900", 5);
  const AttentionCase base(shape, in_pool_of(widest, kPages));
  OnDevice on_device(shape, 12, kRoom);
  DeviceBatch on(base.batch());
  DeviceTensors tensors(base);
  StepGraph graph(on_device, on, tensors);
  std::uint64_t seed = 6;
  // All 900 tokens long, so that tables are as wide.
  for (const char* levels :
       {"12/900", "1,3,12/600,64,236", "1,12/616,284", "2,4,12/300,300,300", "1,3,12/600,64,236"}) {
    SCOPED_TRACE(levels);
    PagedBatch paged = laid_out(levels, seed++);
    if (seed % 2 == 0) paged.kv_lens[3] = paged.kv_lens[7] = 0;
    const AttentionCase test(shape, in_pool_of(paged, kPages));
    on.overwrite(test.batch());
    tensors.copy_inputs(test);  // pages that a case does not use hold NaN
    for (int repeat = 0; repeat < 2; ++repeat) {
      tensors.poison();
      check(cudaDeviceSynchronize());  // the graph's stream waits for no other
      graph.replay();
      ASSERT_TRUE(test.matches(tensors.download(), tolerance_of(DType::kF16)))
          << repeat << "; " << on_device.report().items << " items, " << on_device.report().planned << " planned, "
          << on_device.report().reused << " kept, " << on_device.report().bad_lengths << " bad lengths";
    }
  }
  // The first is planned before the capture, and then found again, as every batch is the second time.
  EXPECT_EQ(on_device.report().planned, 6U);
  EXPECT_EQ(on_device.report().reused, 5U);
}

// A step of one row, by a planner with room for more: its run takes the kernel of a single query where one is said to
// be the most.
TEST_F(CudaDevicePlans, AGraphOfALoneRow) {
  constexpr std::int64_t kPages = 512;
  const AttentionShape shape = make_shape(4, 7, 128, 16);
  const PagedBatch longest = laid_out("1/4000", 5);
  const AttentionCase base(shape, in_pool_of(longest, kPages));
  OnDevice on_device(shape, 12, kRoom);
  DeviceBatch on(base.batch());
  DeviceTensors tensors(base);
  StepGraph graph(on_device, on, tensors, 1);
  if (on_device.executor().runs_single_query(on_device.workspace().data())) {
    EXPECT_LT(graph.nodes(), StepGraph(on_device, on, tensors).nodes());  // no merge
  }
  std::uint64_t seed = 6;
  for (const std::int32_t tokens : {4000, 3999, 2049, 2048, 100, 0, 1, 4000}) {
    PagedBatch paged = laid_out("1/4000", seed++);
    paged.kv_lens[0] = tokens;
    const AttentionCase test(shape, in_pool_of(paged, kPages));
    on.overwrite(test.batch());
    tensors.copy_inputs(test);
    for (int repeat = 0; repeat < 2; ++repeat) {
      tensors.poison();
      check(cudaDeviceSynchronize());
      graph.replay();
      ASSERT_TRUE(test.matches(tensors.download(), tolerance_of(DType::kF16))) << tokens << " tokens, " << repeat;
    }
  }
}

TEST_F(CudaDevicePlans, SteadyStepsKeepThePlan) {
  const PagedBatch paged = laid_out("1,8/512,100", 3);
  const AttentionShape shape = make_shape(2, 8, 128, 16);
  const AttentionCase test(shape, paged.view());
  OnDevice on_device(shape, 8, kRoom);
  const DeviceBatch on(paged.view());
  DeviceTensors tensors(test);
  for (int step = 0; step < 3; ++step) {
    tensors.poison();
    on_device.plan(on);
    on_device.run(tensors);
    ASSERT_TRUE(test.matches(tensors.download(), tolerance_of(DType::kF16))) << step;
  }
  EXPECT_EQ(on_device.report().planned, 1U);
  EXPECT_EQ(on_device.report().reused, 2U);
}

// The device knows the content of a workspace: a plan is reused only if its planner wrote it last.
TEST_F(CudaDevicePlans, ArePlannedAnewInOtherWorkspaces) {
  const PagedBatch paged = laid_out("1,8/512,100", 3);
  const PagedBatch other = laid_out("8/612", 4);
  const AttentionShape shape = make_shape(2, 8, 128, 16);
  const AttentionCase test(shape, in_pool_of(paged, 512));
  const AttentionCase unshared(shape, in_pool_of(other, 512));
  OnDevice on_device(shape, 8, kRoom);
  CudaExecutor& executor = on_device.executor();
  CudaPlanner& planner = on_device.planner();
  const DeviceMemory second(executor.workspace_bytes(planner));
  const DeviceBatch on(test.batch());
  const DeviceBatch on_other(unshared.batch());
  DeviceTensors tensors(test);
  DeviceTensors other_tensors(unshared);
  const auto expect_right = [&](void* workspace, std::size_t bytes) {
    tensors.poison();
    executor.plan(planner, on.view(), workspace, bytes, nullptr);
    executor.resolve(on.view(), workspace, nullptr);
    executor.run(tensors.args(), workspace, nullptr);
    EXPECT_TRUE(test.matches(tensors.download(), tolerance_of(DType::kF16)));
  };
  expect_right(on_device.workspace().data(), on_device.workspace().size());
  expect_right(second.data(), second.size());
  EXPECT_EQ(on_device.report().planned, 2U);
  expect_right(second.data(), second.size());
  EXPECT_EQ(on_device.report().reused, 1U);
  // An upload replaces the plan.
  const Plan plan =
      make_plan(unshared.forest(), on_cuda(shape), cuda_profile(0, shape), options_of(Policy::kFlat, KvSplit::kNone));
  executor.upload(plan, unshared.batch(), second.data(), second.size(), nullptr);
  executor.resolve(on_other.view(), second.data(), nullptr);
  executor.run(other_tensors.args(), second.data(), nullptr);
  EXPECT_TRUE(unshared.matches(other_tensors.download(), tolerance_of(DType::kF16)));
  expect_right(second.data(), second.size());
  EXPECT_EQ(on_device.report().planned, 3U);
}

// A plan that was uploaded first may have left less room than a planner needs.
TEST_F(CudaDevicePlans, LayWorkspacesOutForAllThatTheyMayWrite) {
  const AttentionShape shape = make_shape(2, 8, 128, 16);
  const PagedBatch small = laid_out("1/40", 3);
  const PagedBatch large = laid_out("1,16/512,400", 4);
  const AttentionCase few(shape, small.view());
  const AttentionCase many(shape, large.view());
  OnDevice on_device(shape, 16, kRoom);
  const Plan plan = make_plan(few.forest(), on_cuda(shape), cuda_profile(0, shape));
  on_device.executor().upload(plan, few.batch(), on_device.workspace().data(), on_device.workspace().size(), nullptr);
  const DeviceBatch on(many.batch());
  DeviceTensors tensors(many);
  on_device.plan(on);
  on_device.run(tensors);
  EXPECT_TRUE(many.matches(tensors.download(), tolerance_of(DType::kF16)));
}

TEST_F(CudaDevicePlans, AnEmptyBatchIsPlanned) {
  const AttentionShape shape = make_shape(2, 8, 128, 16);
  OnDevice on_device(shape, 8, kRoom);
  PagedBatch paged = laid_out("1,8/512,100", 3);
  std::fill(paged.kv_lens.begin(), paged.kv_lens.end(), 0);
  const AttentionCase test(shape, paged.view());
  const DeviceBatch on(test.batch());
  DeviceTensors tensors(test);
  on_device.plan(on);
  on_device.run(tensors);
  EXPECT_TRUE(test.matches(tensors.download(), tolerance_of(DType::kF16)));
}

// Phases whose scratch exceeds a block's shared memory use device memory.
TEST_F(CudaDevicePlans, MoreRowsThanSharedMemoryHolds) {
  const std::int32_t rows = 5000;
  const AttentionShape shape = make_shape(1, 1, 64, 16);
  OnDevice on_device(shape, rows, {.queries = rows, .items = 2 * rows, .spans = 4 * rows, .partials = rows});
  const PagedBatch paged = laid_out(("1," + std::to_string(rows) + "/16,16").c_str(), 3);
  const DeviceBatch on(paged.view());
  on_device.plan(on);
  EXPECT_EQ(on_device.report().planned, 1U);
  EXPECT_EQ(on_device.report().unplanned, 0);
}

TEST_F(CudaDevicePlans, WhatDoesNotFitIsPlannedFlat) {
  const PagedBatch paged = laid_out("1,8/512,100", 3);
  const AttentionShape shape = make_shape(2, 8, 128, 16);
  const AttentionCase test(shape, paged.view());
  OnDevice on_device(shape, 8, {.queries = 8, .items = 8, .spans = 8, .partials = 1});
  const DeviceBatch on(paged.view());
  DeviceTensors tensors(test);
  on_device.plan(on);
  on_device.run(tensors);
  EXPECT_TRUE(test.matches(tensors.download(), tolerance_of(DType::kF16)));
  EXPECT_EQ(on_device.report().unplanned, 0);
}

TEST_F(CudaDevicePlans, BadInput) {
  const AttentionShape shape = make_shape(2, 8, 128, 16);
  OnDevice on_device(shape, 4, kRoom);
  const PagedBatch paged = laid_out("1,8/512,100", 3);
  const DeviceBatch on(paged.view());
  expect_error(ErrorCode::kInvalidArgument, "batch.pages has 8 rows; the planner has room for 4",
               [&] { on_device.plan(on); });
  expect_error(ErrorCode::kInvalidArgument, "bound to no memory", [&] {
    CudaPlanner unbound(cuda_profile(0, shape), on_cuda(shape), {.rows = 8, .capacity = kRoom});
    on_device.executor().plan(unbound, on.view(), on_device.workspace().data(), on_device.workspace().size(), nullptr);
  });
  expect_error(ErrorCode::kOutOfRange, "the planner's null_page is 9; ids must be in [0, 9)", [&] {
    CudaPlanner outside(cuda_profile(0, shape), on_cuda(shape), {.rows = 8, .capacity = kRoom, .null_page = 9});
    CudaBatch batch = on.view();
    batch.num_pages = 9;
    on_device.executor().plan(outside, batch, on_device.workspace().data(), on_device.workspace().size(), nullptr);
  });
  expect_error(ErrorCode::kInvalidArgument, "options.rows is 0",
               [&] { CudaPlanner(cuda_profile(0, shape), on_cuda(shape), {.rows = 0, .capacity = kRoom}); });
}

}  // namespace
}  // namespace trunkline::testing
