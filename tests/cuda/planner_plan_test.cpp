// Plans made on the device, by a block and by a cluster, against the host planner's.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "cuda/device_case.hpp"
#include "exec/cuda/planner/cluster_planner.hpp"
#include "exec/cuda/planner/plan_kernel.hpp"
#include "plan/team/tile_guess.hpp"
#include "plan/team_plan_case.hpp"
#include "plan/test_cases.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::testing {
namespace {

using cuda::ForestReport;
using cuda::PlanArgs;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

template <class T>
std::vector<T> downloaded(const DeviceMemory& memory, std::int64_t count) {
  std::vector<T> all(memory.size() / sizeof(T));
  memory.download(all.data());
  all.resize(at(count));
  return all;
}

/// A forest's arrays, and a report on it.
struct HostArrays {
  explicit HostArrays(const Forest& forest) {
    for (const ForestRequest& request : forest.requests) {
      kv_len.push_back(request.kv_len);
      query_begin.push_back(request.query_begin);
      node.push_back(request.node);
    }
    const ForestRequest& last = forest.requests.back();
    query_begin.push_back(last.query_begin + last.queries);
    nodes = forest.nodes;
    nodes.resize(2 * kv_len.size());
    report.resize(1);
    report[0].found.node_count = static_cast<std::int32_t>(forest.nodes.size());
    report[0].found.total_tokens = forest.total_tokens;
    report[0].found.distinct_tokens = forest.distinct_tokens;
    report[0].kept = 0;
  }

  std::vector<ForestNode> nodes;
  std::vector<std::int32_t> kv_len;
  std::vector<std::int32_t> query_begin;
  std::vector<std::int32_t> node;
  std::vector<ForestReport> report;
};

/// A forest in device memory, and room for its plan.
class DevicePlanCase {
 public:
  DevicePlanCase(const Forest& forest, const TeamMachine& machine, std::int32_t spare_rows)
      : DevicePlanCase(HostArrays(forest), forest.order, machine, spare_rows) {}

  void launch(std::int32_t blocks) {
    constexpr int kWrong = 0xA5;  // what a plan does not write is not that of the one before
    for (DeviceMemory* const list : {&counts_, &queries_, &items_, &item_queries_, &item_outputs_, &spans_, &masks_,
                                     &merge_queries_, &merge_begin_, &merge_slots_, &partial_merges_, &schedule_}) {
      list->fill(kWrong);
    }
    check(blocks == 1 ? cuda::launch_plan(args_, false, nullptr)
                      : cuda::launch_cluster(nullptr, &args_, nullptr, blocks));
  }

  TeamPlanStatus status() const {
    return of_memory([](const PlanMemory& memory) { return *memory.status; });
  }
  /// Whether tiles have become likely enough for a sketch; not whether one was the plan.
  bool guessed() const {
    return of_memory([](const PlanMemory& memory) { return memory.guess->times == TileGuess::kLikely; });
  }
  UploadedPlan plan() const {
    const ListCounts counts = downloaded<ListCounts>(counts_, 1)[0];
    const TeamPlanStatus status = this->status();
    return {downloaded<RowQuery>(queries_, query_count_),
            downloaded<WorkItem>(items_, counts.items),
            downloaded<std::int32_t>(item_queries_, counts.item_queries),
            downloaded<std::int32_t>(item_outputs_, counts.item_queries),
            downloaded<RowSpan>(spans_, counts.spans),
            downloaded<QueryMask>(masks_, status.masks),
            downloaded<std::int32_t>(merge_queries_, counts.merges),
            downloaded<std::int32_t>(merge_begin_, counts.merges + 1),
            downloaded<std::int32_t>(merge_slots_, status.partials),
            downloaded<std::int32_t>(partial_merges_, status.partials),
            downloaded<std::int32_t>(schedule_, counts.items)};
  }

 private:
  template <class F>
  std::invoke_result_t<F, const PlanMemory&> of_memory(F f) const {
    std::vector<std::byte> bytes(memory_.size());
    memory_.download(bytes.data());
    PlanMemory host = args_.memory;
    host.lay_out(bytes.data(), host.rows, capacity_);
    return f(host);
  }

  DevicePlanCase(const HostArrays& host, const std::vector<std::int32_t>& order, const TeamMachine& machine,
                 std::int32_t spare_rows)
      : capacity_(machine.capacity),
        query_count_(host.query_begin.back()),
        nodes_(host.nodes),
        order_(order),
        kv_len_(host.kv_len),
        query_begin_(host.query_begin),
        node_(host.node),
        report_(host.report),
        machine_(&machine, sizeof(machine)),
        memory_(PlanMemory{}.lay_out(nullptr, static_cast<std::int32_t>(order.size()) + spare_rows, capacity_)),
        counts_(sizeof(ListCounts)),
        queries_(at(capacity_.queries) * sizeof(RowQuery)),
        items_(at(capacity_.items) * sizeof(WorkItem)),
        item_queries_(at(capacity_.queries + capacity_.partials) * 4),
        item_outputs_(at(capacity_.queries + capacity_.partials) * 4),
        spans_(at(capacity_.spans) * sizeof(RowSpan)),
        masks_(at(capacity_.spans) * sizeof(QueryMask)),
        merge_queries_(at(capacity_.queries) * 4),
        merge_begin_(at(capacity_.queries + 1) * 4),
        merge_slots_(at(capacity_.partials) * 4),
        partial_merges_(at(capacity_.partials) * 4),
        schedule_(at(capacity_.items) * 4) {
    const auto rows = static_cast<std::int32_t>(order.size());
    args_.forest.nodes = nodes_.as<ForestNode>();
    args_.forest.order = order_.as<std::int32_t>();
    args_.forest.kv_len = kv_len_.as<std::int32_t>();
    args_.forest.query_begin = query_begin_.as<std::int32_t>();
    args_.forest.node = node_.as<std::int32_t>();
    args_.forest.rows = rows;
    args_.report = report_.as<ForestReport>();
    args_.machine = machine_.as<TeamMachine>();
    args_.memory.lay_out(memory_.as<std::byte>(), rows + spare_rows, capacity_);
    args_.lists = {counts_.as<ListCounts>(),
                   queries_.as<RowQuery>(),
                   items_.as<WorkItem>(),
                   item_queries_.as<std::int32_t>(),
                   item_outputs_.as<std::int32_t>(),
                   spans_.as<RowSpan>(),
                   masks_.as<std::uint64_t>(),
                   merge_queries_.as<std::int32_t>(),
                   merge_begin_.as<std::int32_t>(),
                   merge_slots_.as<std::int32_t>(),
                   partial_merges_.as<std::int32_t>(),
                   schedule_.as<std::int32_t>()};
  }

  PlanCapacity capacity_;
  std::int32_t query_count_;
  DeviceMemory nodes_, order_, kv_len_, query_begin_, node_, report_, machine_, memory_, counts_, queries_, items_,
      item_queries_, item_outputs_, spans_, masks_, merge_queries_, merge_begin_, merge_slots_, partial_merges_,
      schedule_;
  PlanArgs args_{};
};

class CudaPlan : public CudaTest {
 protected:
  /// \param[in,out] sketches of plans with cuts that were the last plan, counted; null: they are not
  static void expect_hosts_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                                const PlanCapacity& capacity, std::int32_t spare_rows, int* sketches = nullptr) {
    PlanOptions options;
    options.policy = Policy::kTrunk;
    options.capacity = capacity;
    const Plan plan = make_plan(forest, shape, profile, options);
    const UploadedPlan expected = uploaded(plan, forest);
    DevicePlanCase device(forest, make_team_machine(profile, shape, capacity), spare_rows);
    // From the third plan on, tiles are guessed.
    for (const std::int32_t blocks : {1, cuda::kMostBlocks, cuda::kPortableBlocks, cuda::kMostBlocks}) {
      if (blocks > 1 && cuda_device_info(0).major != 9) continue;
      SCOPED_TRACE(::testing::Message() << blocks << " blocks");
      device.launch(blocks);
      ASSERT_EQ(find_difference(expected, device.plan()), std::nullopt);
      ASSERT_EQ(device.status().fallbacks, plan.statistics.fallbacks);
      ASSERT_EQ(device.status().read_tokens, plan.statistics.kv_tokens_read);
    }
    if (sketches != nullptr && plan.partials > 0 && device.guessed()) ++*sketches;
  }
};

TEST_F(CudaPlan, EqualsTheHosts) {
  for (int seed = 1; seed <= scaled(1500); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatchOptions batch;
    batch.max_rows = seed % 20 == 0 ? 1000 : uniform(random, 1, 80);
    batch.max_tokens = uniform(random, 0, 2) == 0 ? 8000 : uniform(random, 1, 400);
    batch.page_size = uniform(random, 0, 1) == 0 ? 1 : 16;
    batch.max_queries = uniform(random, 0, 2) == 0 ? uniform(random, 2, 40) : 1;
    const Forest forest = build_forest(make_random_batch(random, batch).view());
    const AttentionShape shape = shape_of(2 * uniform(random, 1, 16), 2);
    const ForestRequest& last = forest.requests.back();
    const std::int32_t queries = last.query_begin + last.queries;
    // Some plans exceed what there is room for.
    const PlanCapacity capacity = {queries, queries + uniform(random, 0, 200), queries + uniform(random, 0, 20'000),
                                   uniform(random, 1, 20'000)};
    expect_hosts_plan(forest, shape, hopper_like_profile(uniform(random, 1, 200)), capacity, uniform(random, 0, 20));
    if (HasFatalFailure()) return;
  }
}

// Requests that are alike, with some tokens of their own behind a prefix: of most the tiles are cut, and the third and
// fourth plan are sketches.
TEST_F(CudaPlan, CutsThatAreGuessed) {
  const PlanCapacity capacity = {256, 4096, 1 << 16, 1 << 14};
  int sketches = 0;
  for (int seed = 0; seed < scaled(200); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 5000);
    const std::int32_t shared = uniform(random, 1, 40) * 250;
    const std::int32_t rows = uniform(random, 16, 256);
    const std::int32_t own = uniform(random, 1, 400);
    SCOPED_TRACE(::testing::Message() << rows << " rows, " << shared << " tokens shared, " << own << " own");
    expect_hosts_plan(star_forest(shared, rows, own), shape_of(32, 8), hopper_like_profile(132), capacity, 0,
                      &sketches);
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(sketches > 0 || cuda_device_info(0).major != 9);
  // One tile in sixteen parts, and in more, of which blocks tell each other.
  expect_hosts_plan(star_forest(64'000, 32, 16), shape_of(32, 8), hopper_like_profile(132), capacity, 0);
  expect_hosts_plan(star_forest(64'000, 32, 16), shape_of(32, 4), hopper_like_profile(132), capacity, 0);
}

// More than a block has room for what all tiles stream: each deals a share, and tells of it.
TEST_F(CudaPlan, TilesThatAreShared) {
  const PlanCapacity capacity = {1024, 4096, 1 << 17, 1 << 15};
  int sketches = 0;
  for (int seed = 0; seed < scaled(100); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 9000);
    const std::int32_t shared = uniform(random, 0, 40) * 250;
    const std::int32_t rows = uniform(random, 500, 1024);
    const std::int32_t own = seed % 2 == 0 ? uniform(random, 1, 200) : uniform(random, 1, 8) * 1000;
    SCOPED_TRACE(::testing::Message() << rows << " rows, " << shared << " tokens shared, " << own << " own");
    expect_hosts_plan(star_forest(shared, rows, own), shape_of(32, 8), hopper_like_profile(132), capacity, 0,
                      &sketches);
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(sketches > 0 || scaled(100) < 20 || cuda_device_info(0).major != 9);
}

TEST_F(CudaPlan, ThousandsOfPieces) {
  const PlanCapacity capacity = {1024, 4096, 1 << 17, 1 << 15};
  const MachineProfile profile = hopper_like_profile(132);
  expect_hosts_plan(star_forest(20'000, 1024, 2000), shape_of(32, 8), profile, capacity, 0);
  expect_hosts_plan(star_forest(100'000, 24, 90'000), shape_of(32, 8), profile, capacity, 0);
  expect_hosts_plan(chain_forest(200, 100), shape_of(16, 1), profile, capacity, 0);
}

}  // namespace
}  // namespace trunkline::testing
