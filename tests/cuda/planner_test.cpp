// Plans made on the device are the host planner's, bit for bit: in one launch after another, and in a captured graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cuda/device_case.hpp"
#include "cuda/graph.hpp"
#include "exec/cuda/device_planner/planner_kernels.hpp"
#include "plan/device/device_batches.hpp"
#include "plan/device/plan_case.hpp"
#include "plan/test_cases.hpp"
#include "support/planner_batches.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::testing {
namespace {

using cuda::PlannerArgs;

constexpr std::int32_t kGrowth = 40;

template <class T>
std::vector<T> downloaded(const DeviceMemory& memory, std::int64_t count) {
  std::vector<T> all(memory.size() / sizeof(T));
  memory.download(all.data());
  all.resize(static_cast<std::size_t>(count));
  return all;
}

std::size_t bytes_of(const PlannerTask& task, std::int32_t rows, const PlanCapacity& capacity) {
  PlannerMemory memory = task.memory;
  Arena arena(nullptr);
  memory.lay_out(arena, rows, capacity);
  return arena.bytes();
}

/// A planner's memory, lists and a batch on the device.
class PlannerCase {
 public:
  /// \param shared whether phases may use dynamic shared memory
  PlannerCase(const RandomBatch& batch, const AttentionShape& shape, const MachineProfile& profile,
              const PlanCapacity& capacity, bool shared = true, std::int32_t invariant_chunk = 0)
      : capacities_(sizes_of(capacity, shape.group_size())),
        machine_(make_planner_machine(profile, shape, capacity, invariant_chunk)),
        rows_(batch.view().rows()),
        on_device_(batch.view()),
        query_start_(batch.query_start),
        query_parents_(batch.query_parents),
        machine_memory_(&machine_, sizeof(machine_)),
        memory_(bytes_of({}, std::max(rows_, 1), capacity)),
        searches_(cuda::search_memory_bytes(std::max(rows_, 1))),
        counts_(std::vector<ListCounts>(1)),
        steps_(std::vector<std::uint64_t>(4)),
        report_(sizeof(cuda::PlannerReport)),
        lists_(list_bytes(capacities_)) {
    Arena arena(memory_.as<std::byte>());
    args_.task.memory.lay_out(arena, std::max(rows_, 1), capacity);
    const PlannedStep none;
    check(cudaMemcpy(args_.task.memory.planned.step, &none, sizeof(none), cudaMemcpyHostToDevice));
    Batch view = batch.view();
    view.pages = on_device_.view().pages;
    args_.task.batch = device_batch_of(view);
    args_.task.batch.kv_lens = on_device_.view().kv_lens;
    args_.task.batch.query_start = batch.query_start.empty() ? nullptr : query_start_.as<std::int32_t>();
    args_.task.batch.query_parents = batch.query_parents.empty() ? nullptr : query_parents_.as<std::int32_t>();
    args_.task.machine = machine_memory_.as<PlannerMachine>();
    args_.task.max_growth = kGrowth;
    lay_out_lists(lists_.as<std::byte>(), capacities_, args_.task.lists);
    args_.task.lists.counts = counts_.as<ListCounts>();
    args_.searches = searches_.as<std::byte>();
    args_.steps = steps_.as<std::uint64_t>();
    args_.written = steps_.as<std::uint64_t>() + 2;
    args_.report = report_.as<cuda::PlannerReport>();
    args_.planner = 7;
    args_.widths = invariant_chunk > 0 ? 0 : machine_.width_count;
    args_.shared_bytes = shared ? cuda::planner_shared_bytes() : 0;
  }

  void launch(cudaStream_t stream = nullptr) {
    cuda::launch_planner(args_, stream);
    check(cudaGetLastError());
  }
  /// Other ids and lengths at the same addresses.
  void overwrite(const RandomBatch& batch) { on_device_.overwrite(batch.view()); }
  /// Fills the lists, so that entries that a plan does not write are not those of the plan before.
  void poison() { lists_.fill(0xA5); }

  std::uint64_t planned() const { return downloaded<std::uint64_t>(steps_, 2)[0]; }
  std::uint64_t reused() const { return downloaded<std::uint64_t>(steps_, 2)[1]; }
  CudaPlanReport report() const { return downloaded<cuda::PlannerReport>(report_, 1)[0].report; }
  PlanSummary summary() const {
    PlanSummary summary;
    check(cudaMemcpy(&summary, args_.task.memory.layout.summary, sizeof(summary), cudaMemcpyDeviceToHost));
    return summary;
  }
  UploadedPlan plan(std::int32_t queries) const {
    const PlanSummary of = summary();
    const PlanSizes sizes{.queries = size(queries),
                          .items = size(of.items),
                          .item_queries = size(of.entries),
                          .spans = size(of.spans),
                          .masks = size(of.masks),
                          .merge_queries = size(of.merges),
                          .merge_slots = size(of.partials),
                          .partials = size(of.partials)};
    UploadedPlan plan;
    for_each_list(
        sizes,
        [](const PlanListInfo& info, auto& to, const auto* from) {
          to.resize(info.entries);
          check(cudaMemcpy(to.data(), from, info.entries * info.entry_bytes, cudaMemcpyDeviceToHost));
        },
        plan, args_.task.lists);
    return plan;
  }

 private:
  static std::size_t size(std::int32_t count) { return static_cast<std::size_t>(count); }
  /// \return bytes that the lists take
  static std::size_t lay_out_lists(std::byte* base, const PlanSizes& capacities, PlanLists& lists) {
    Arena arena(base);
    for_each_list(
        capacities,
        [&](const PlanListInfo& info, auto*& list) { arena.take(list, static_cast<std::int64_t>(info.entries)); },
        lists);
    return arena.bytes();
  }
  static std::size_t list_bytes(const PlanSizes& capacities) {
    PlanLists lists;
    return lay_out_lists(nullptr, capacities, lists);
  }

  PlanSizes capacities_;
  PlannerMachine machine_;
  std::int32_t rows_;
  DeviceBatch on_device_;
  DeviceMemory query_start_, query_parents_, machine_memory_, memory_, searches_, counts_, steps_, report_, lists_;
  PlannerArgs args_;
};

PlanOptions trunk_options(const PlanCapacity& capacity) {
  PlanOptions options;
  options.policy = Policy::kTrunk;
  options.capacity = capacity;
  return options;
}

class CudaPlan : public CudaTest {
 protected:
  static void expect_plan(PlannerCase& device, const Forest& forest, const Plan& plan) {
    const PlanSummary summary = device.summary();
    ASSERT_EQ(summary.fallbacks, plan.statistics.fallbacks);
    ASSERT_EQ(summary.unplanned, 0);
    ASSERT_EQ(find_difference(uploaded(plan, forest), device.plan(static_cast<std::int32_t>(plan.queries.size()))),
              std::nullopt);
    ASSERT_EQ(summary.read_tokens, plan.statistics.kv_tokens_read);
    ASSERT_EQ(summary.total_tokens, plan.statistics.kv_tokens_total);
  }
  static void expect_hosts_plan(const RandomBatch& batch, const AttentionShape& shape, const MachineProfile& profile,
                                const PlanOptions& options, bool shared = true) {
    const Forest forest = build_forest(batch.view());
    const Plan plan = make_plan(forest, shape, profile, options);
    PlannerCase device(batch, shape, profile, options.capacity, shared, plan.invariant_chunk);
    device.poison();
    device.launch();
    expect_plan(device, forest, plan);
    if (HasFatalFailure()) return;
    device.launch();
    EXPECT_EQ(device.planned(), 1U);
    EXPECT_EQ(device.reused(), 1U);
    expect_plan(device, forest, plan);
  }
};

PlanCapacity any_capacity(std::mt19937_64& random, std::int32_t queries) {
  return {queries, queries + uniform(random, 0, 200), queries + uniform(random, 0, 20'000), uniform(random, 1, 20'000)};
}

RandomBatch without_slots(RandomBatch batch) {
  batch.slots.clear();
  batch.generations.clear();
  return batch;
}

TEST_F(CudaPlan, EqualsTheHosts) {
  int trees = 0;
  for (int seed = 1; seed <= scaled(1500); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatchOptions options;
    options.max_rows = seed % 20 == 0 ? 1000 : uniform(random, 1, 80);
    options.max_tokens = uniform(random, 0, 2) == 0 ? 8000 : uniform(random, 1, 400);
    options.page_size = uniform(random, 0, 1) == 0 ? 1 : 16;
    options.max_queries = uniform(random, 0, 2) == 0 ? uniform(random, 2, 40) : 1;
    options.trees = options.max_queries > 1 && uniform(random, 0, 1) == 0;
    options.wide_ids = uniform(random, 0, 3) == 0;
    trees += options.trees ? 1 : 0;
    const RandomBatch batch = without_slots(make_random_batch(random, options));
    const AttentionShape shape = shape_of(2 * uniform(random, 1, 16), 2);
    // Some plans exceed the capacities.
    const PlanCapacity capacity = any_capacity(random, std::max(batch.view().total_queries(), 1));
    expect_hosts_plan(batch, shape, hopper_like_profile(uniform(random, 1, 200)), trunk_options(capacity),
                      seed % 4 != 0);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(trees, 0);
}

TEST_F(CudaPlan, EveryKindOfBatch) {
  for (int seed = 1; seed <= scaled(1500); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const auto row_limit = seed % 50 == 0 ? 1024 : seed % 5 == 0 ? 200 : 24;
    const RandomBatch batch = make_planner_batch(static_cast<std::uint64_t>(seed), row_limit);
    const PlanCapacity capacity = any_capacity(random, std::max(batch.view().total_queries(), 1));
    expect_hosts_plan(batch, shape_of(32, 8), hopper_like_profile(132), trunk_options(capacity), seed % 4 != 0);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaPlan, Invariant) {
  for (int seed = 1; seed <= scaled(500); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatchOptions batch_options;
    batch_options.max_rows = uniform(random, 1, 80);
    batch_options.max_tokens = uniform(random, 1, 4000);
    batch_options.max_queries = uniform(random, 0, 1) == 0 ? uniform(random, 2, 40) : 1;
    const RandomBatch batch = without_slots(make_random_batch(random, batch_options));
    PlanOptions options;
    options.policy = Policy::kInvariant;
    options.policies.invariant_chunk = 1 << uniform(random, 6, 10);
    options.capacity = {std::max(batch.view().total_queries(), 1), 1 << 14, 1 << 15, 1 << 16};
    expect_hosts_plan(batch, shape_of(2 * uniform(random, 1, 16), 2), hopper_like_profile(132), options);
    if (HasFatalFailure()) return;
  }
}

/// Rows of `pages` pages of 16 tokens, of which all share the first `shared`.
RandomBatch long_rows(std::int32_t rows, std::int32_t pages, std::int32_t shared) {
  RandomBatch batch;
  std::int64_t next = 1 + shared;
  for (std::int32_t row = 0; row < rows; ++row) {
    std::vector<std::int64_t> ids;
    for (std::int32_t page = 0; page < pages; ++page) ids.push_back(page < shared ? page + 1 : next++);
    batch.row_pages.push_back(ids);
    batch.kv_lens.push_back(16 * pages - row % 16);
  }
  batch.num_pages = next;
  batch.lay_out_table();
  return batch;
}

TEST_F(CudaPlan, LongRowsAndManyRows) {
  const PlanCapacity capacity = {4096, 1 << 14, 1 << 17, 1 << 16};
  const auto expect = [&](const RandomBatch& batch) {
    expect_hosts_plan(batch, shape_of(32, 8), hopper_like_profile(132), trunk_options(capacity));
  };
  for (const auto& [rows, pages, shared] : {std::array{1024, 512, 300},
                                            {1024, 512, 512},
                                            {40, 8192, 8190},
                                            {3000, 5, 2},
                                            {1023, 512, 512},
                                            {41, 8191, 8190}}) {
    SCOPED_TRACE(::testing::Message() << rows << " rows");
    expect(long_rows(rows, pages, shared));
  }
}

TEST_F(CudaPlan, StepsThatTheLastPlanReads) {
  int reused = 0;
  const PlanCapacity capacity = {256, 1 << 12, 1 << 15, 1 << 14};
  for (int seed = 1; seed <= scaled(300); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatch batch = make_planner_batch(static_cast<std::uint64_t>(seed), 40);
    batch.num_pages = std::int64_t{1} << 30;
    const AttentionShape shape = shape_of(32, 8);
    const MachineProfile profile = hopper_like_profile(132);
    const Forest forest = build_forest(batch.view());
    PlannerCase device(batch, shape, profile, capacity);
    device.launch();
    const Plan plan = make_plan(forest, shape, profile, trunk_options(capacity));
    ASSERT_NO_FATAL_FAILURE(expect_plan(device, forest, plan));
    const std::int32_t growth = std::min(kGrowth, device.summary().growth);
    // Rows that have their last node to themselves get tokens in the pages that they have.
    RandomBatch grown = batch;
    for (std::size_t row = 0; row < grown.kv_lens.size(); ++row) {
      const std::int32_t node = forest.requests[row].node;
      if (node < 0 || forest.nodes[static_cast<std::size_t>(node)].requests.size() > 1) continue;
      const auto room = static_cast<std::int32_t>(grown.row_pages[row].size()) * grown.options.page_size;
      grown.kv_lens[row] = std::min(room, grown.kv_lens[row] + growth);
    }
    device.overwrite(grown);
    device.launch();
    ASSERT_EQ(device.reused(), 1U);
    ++reused;
    // Another request in some row, of the same length.
    RandomBatch other = grown;
    const auto row = static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(other.kv_lens.size()) - 1));
    if (other.row_pages[row].empty()) continue;
    for (std::int64_t& page : other.row_pages[row]) page = other.num_pages++;
    other.lay_out_table();
    device.overwrite(other);
    device.launch();
    ASSERT_EQ(device.planned(), 2U);
    const Forest others = build_forest(other.view());
    ASSERT_NO_FATAL_FAILURE(expect_plan(device, others, make_plan(others, shape, profile, trunk_options(capacity))));
  }
  EXPECT_GT(reused, 0);
}

// One capture of a fixed table, in which every replay finds other requests, padded rows and stale entries.
TEST_F(CudaPlan, OneCaptureServesAllBatchesOfItsSize) {
  constexpr std::int32_t kRows = 64;
  const PlanCapacity capacity = {kRows, 1 << 12, 1 << 13, 1 << 13};
  const AttentionShape shape = shape_of(32, 8);
  const MachineProfile profile = hopper_like_profile(132);
  std::mt19937_64 random(8);
  RandomBatch batch = long_rows(kRows, 32, 32);
  PlannerCase device(batch, shape, profile, capacity);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  device.launch(stream);
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t replay = nullptr;
  check(cudaGraphInstantiate(&replay, graph, 0));
  for (int step = 0; step < scaled(200); ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step);
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto from = static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(row)));
      batch.row_pages[row] = batch.row_pages[from];
      for (auto page = static_cast<std::size_t>(uniform(random, 0, 32)); page < 32; ++page) {
        batch.row_pages[row][page] = uniform(random, 1, 4000);
      }
      batch.kv_lens[row] = uniform(random, 0, 3) == 0 ? 0 : uniform(random, 1, 16 * 32);
    }
    batch.lay_out_table();
    device.overwrite(batch);
    for (const int launch : {0, 1}) {
      check(cudaGraphLaunch(replay, stream));
      check(cudaStreamSynchronize(stream));
      ASSERT_EQ(device.planned(), static_cast<std::uint64_t>(step) + 1);
      ASSERT_EQ(device.reused(), static_cast<std::uint64_t>(step + launch));
      const Forest forest = build_forest(batch.view());
      ASSERT_NO_FATAL_FAILURE(expect_plan(device, forest, make_plan(forest, shape, profile, trunk_options(capacity))));
    }
  }
  check(cudaGraphExecDestroy(replay));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
}

TEST_F(CudaPlan, LengthsThatDoNotFitAreCountedAndEmpty) {
  const PlanCapacity capacity = {8, 64, 256, 256};
  RandomBatch batch = long_rows(8, 4, 2);
  PlannerCase device(batch, shape_of(32, 8), hopper_like_profile(132), capacity);
  batch.kv_lens = {64, -1, 64, std::numeric_limits<std::int32_t>::max(), 0, 64, 64, 64};
  device.overwrite(batch);
  for (std::uint64_t launches = 1; launches <= 2; ++launches) {
    device.launch();
    EXPECT_EQ(device.planned(), launches) << "faults are counted at every step";
    EXPECT_EQ(device.report().bad_lengths, 2);
    EXPECT_EQ(device.report().first_bad_length, 1);
    EXPECT_EQ(device.report().bad_length, -1);
  }
  batch.kv_lens[1] = batch.kv_lens[3] = 0;
  const Forest forest = build_forest(batch.view());
  expect_plan(device, forest, make_plan(forest, shape_of(32, 8), hopper_like_profile(132), trunk_options(capacity)));
}

}  // namespace
}  // namespace trunkline::testing
