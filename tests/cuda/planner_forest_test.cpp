// Forests found on the device, by a block and by a cluster, against the host's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/device_case.hpp"
#include "exec/cuda/planner/cluster_planner.hpp"
#include "exec/cuda/planner/forest_kernel.hpp"
#include "support/brute_forest.hpp"
#include "support/random_batch.hpp"
#include "support/team_batches.hpp"
#include "support/test_scale.hpp"

namespace trunkline::testing {
namespace {

using cuda::ForestArgs;
using cuda::ForestReport;

constexpr std::int32_t kGrowth = 40;

bool has_clusters() {
  return cuda_device_info(0).major == 9;
}

template <class T>
std::vector<T> downloaded(const DeviceMemory& memory, std::size_t count) {
  std::vector<T> all(memory.size() / sizeof(T));
  memory.download(all.data());
  all.resize(count);
  return all;
}

/// A batch's table, lengths and queries, and room for its forest, in device memory.
class DeviceForest {
 public:
  /// \param in_device_memory the scratch, as where there are more rows than a block's shared memory holds
  DeviceForest(const RandomBatch& batch, bool steady, bool in_device_memory)
      : rows_(static_cast<std::size_t>(batch.view().rows())),
        batch_(batch.view()),
        query_start_(batch.query_start),
        nodes_(2 * rows_ * sizeof(ForestNode)),
        order_(rows_ * 4),
        kv_len_(rows_ * 4),
        query_begin_((rows_ + 1) * 4),
        node_(rows_ * 4),
        steady_rows_(std::vector<SteadyRow>(rows_)),
        last_(std::vector<LastForest>(1)),
        seen_(rows_ * sizeof(SeenRow)),
        changed_(sizeof(ChangedRows)),
        report_(sizeof(ForestReport)) {
    const std::size_t needed = in_device_memory ? ForestPhaseMemory(nullptr, static_cast<std::int32_t>(rows_)).bytes
                                                : cuda::forest_scratch_bytes(static_cast<std::int32_t>(rows_));
    if (needed > 0) scratch_ = std::make_unique<DeviceMemory>(needed);
    set_args(batch, steady);
  }

  void launch(bool cluster, cudaStream_t stream = nullptr) { check(cuda::launch_forest(args_, cluster, stream)); }
  void launch_without_rows(bool cluster) {
    ForestArgs none = args_;
    none.batch.rows = 0;
    check(cuda::launch_forest(none, cluster, nullptr));
  }
  /// By a cluster of as many blocks as every device with clusters has.
  void launch_portable() { check(cuda::launch_cluster(&args_, nullptr, nullptr, cuda::kPortableBlocks)); }
  /// Other ids and lengths at the same addresses.
  void overwrite(const RandomBatch& batch) { batch_.overwrite(batch.view()); }

  ForestReport report() const { return downloaded<ForestReport>(report_, 1)[0]; }
  Forest forest() const {
    const ForestReport report = this->report();
    Forest forest;
    forest.nodes = downloaded<ForestNode>(nodes_, static_cast<std::size_t>(report.found.node_count));
    forest.order = downloaded<std::int32_t>(order_, rows_);
    forest.total_tokens = report.found.total_tokens;
    forest.distinct_tokens = report.found.distinct_tokens;
    const auto kv_len = downloaded<std::int32_t>(kv_len_, rows_);
    const auto begin = downloaded<std::int32_t>(query_begin_, rows_ + 1);
    const auto node = downloaded<std::int32_t>(node_, rows_);
    for (std::size_t row = 0; row < rows_; ++row) {
      ForestRequest request;
      request.kv_len = kv_len[row];
      request.query_begin = begin[row];
      request.queries = begin[row + 1] - begin[row];
      request.node = node[row];
      forest.requests.push_back(request);
    }
    return forest;
  }

 private:
  void set_args(const RandomBatch& batch, bool steady) {
    Batch on_device = batch.view();
    const CudaBatch& view = batch_.view();
    on_device.pages = view.pages;
    args_.batch = team_batch_of(on_device);
    args_.batch.kv_lens = view.kv_lens;
    args_.batch.query_start = batch.query_start.empty() ? nullptr : query_start_.as<std::int32_t>();
    args_.forest.nodes = nodes_.as<ForestNode>();
    args_.forest.order = order_.as<std::int32_t>();
    args_.forest.kv_len = kv_len_.as<std::int32_t>();
    args_.forest.query_begin = query_begin_.as<std::int32_t>();
    args_.forest.node = node_.as<std::int32_t>();
    if (steady) {
      args_.steady = {steady_rows_.as<SteadyRow>(), last_.as<LastForest>(), nullptr, seen_.as<SeenRow>(),
                      changed_.as<ChangedRows>()};
    }
    args_.growth = kGrowth;
    args_.report = report_.as<ForestReport>();
    args_.scratch = scratch_ == nullptr ? nullptr : scratch_->as<std::byte>();
  }

  std::size_t rows_;
  DeviceBatch batch_;
  DeviceMemory query_start_, nodes_, order_, kv_len_, query_begin_, node_, steady_rows_, last_, seen_, changed_,
      report_;
  std::unique_ptr<DeviceMemory> scratch_;
  ForestArgs args_{};
};

class CudaForest : public CudaTest {
 protected:
  static void expect_hosts_forest(const RandomBatch& batch) {
    const std::string expected = team_text(build_forest(batch.view()));
    for (const bool cluster : {false, true}) {
      if (cluster && !has_clusters()) continue;
      for (const bool in_device_memory : {false, true}) {
        SCOPED_TRACE(::testing::Message() << (cluster ? "cluster" : "block") << (in_device_memory ? ", scratch" : ""));
        DeviceForest device(batch, false, in_device_memory);
        device.launch(cluster);
        ASSERT_EQ(to_text(device.forest()), expected);
        EXPECT_EQ(device.report().found.faults.lengths + device.report().found.faults.queries, 0);
        if (!cluster) continue;
        DeviceForest by_fewer(batch, false, in_device_memory);
        by_fewer.launch_portable();
        ASSERT_EQ(to_text(by_fewer.forest()), expected) << "by a portable cluster";
      }
    }
  }
};

TEST_F(CudaForest, EqualsTheHosts) {
  for (int seed = 1; seed <= scaled(2000); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto most_rows = seed % 50 == 0 ? 1024 : seed % 5 == 0 ? 200 : 24;
    expect_hosts_forest(make_team_batch(static_cast<std::uint64_t>(seed), most_rows));
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

TEST_F(CudaForest, LongRowsAndManyRows) {
  expect_hosts_forest(long_rows(1024, 512, 300));
  expect_hosts_forest(long_rows(1024, 512, 512));
  expect_hosts_forest(long_rows(40, 8192, 8190));
  expect_hosts_forest(long_rows(3000, 5, 2));
  // Of an odd number of rows, which begin anywhere in the table (RandomBatch::lay_out_table).
  expect_hosts_forest(long_rows(1023, 512, 512));
  expect_hosts_forest(long_rows(41, 8191, 8190));
  // As many rows as blocks that look, and one more.
  constexpr std::int32_t kBlocks = LookShare::kMostBlocks;
  for (const std::int32_t rows : {kBlocks, kBlocks + 1, 2 * kBlocks, 2 * kBlocks + 1}) {
    expect_hosts_forest(long_rows(rows, 40, 30));
  }
}

TEST_F(CudaForest, SteadyStepsAreKeptAndOthersPlanned) {
  int kept = 0;
  for (int seed = 1; seed <= scaled(300); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatch batch = make_team_batch(static_cast<std::uint64_t>(seed), 40);
    batch.num_pages = std::int64_t{1} << 30;
    const Forest forest = build_forest(batch.view());
    DeviceForest device(batch, true, seed % 5 == 0);
    const bool cluster = has_clusters() && seed % 3 != 0;
    device.launch(cluster);
    ASSERT_EQ(device.report().kept, 0);
    // Rows that have their last node to themselves get tokens in the pages that they have.
    RandomBatch grown = batch;
    for (std::size_t row = 0; row < grown.kv_lens.size(); ++row) {
      const std::int32_t node = forest.requests[row].node;
      if (node < 0 || forest.nodes[static_cast<std::size_t>(node)].requests.size() > 1) continue;
      const auto room = static_cast<std::int32_t>(grown.row_pages[row].size()) * grown.options.page_size;
      grown.kv_lens[row] = std::min(room, grown.kv_lens[row] + kGrowth);
    }
    device.overwrite(grown);
    device.launch(cluster);
    ASSERT_EQ(device.report().kept, 1);
    ASSERT_EQ(to_text(device.forest()), team_text(forest)) << "as planned";
    ++kept;
    // Another request in some row, of the same length.
    RandomBatch other = grown;
    const auto row = static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(other.kv_lens.size()) - 1));
    if (other.row_pages[row].empty()) continue;
    for (std::int64_t& page : other.row_pages[row]) page = other.num_pages++;
    other.lay_out_table();
    device.overwrite(other);
    device.launch(cluster);
    ASSERT_EQ(device.report().kept, 0);
    ASSERT_EQ(to_text(device.forest()), team_text(build_forest(other.view())));
  }
  EXPECT_GT(kept, 0);
}

TEST_F(CudaForest, AStepWithoutRowsIsNotTheLastOne) {
  const RandomBatch batch = make_team_batch(3, 20);
  for (const bool cluster : {false, true}) {
    if (cluster && !has_clusters()) continue;
    DeviceForest device(batch, true, false);
    device.launch(cluster);
    device.launch_without_rows(cluster);
    EXPECT_EQ(device.report().kept, 0);
    EXPECT_EQ(device.report().found.node_count, 0);
    device.launch_without_rows(cluster);
    EXPECT_EQ(device.report().kept, 1) << "nobody looks at rows, and what was seen of others is no change";
  }
}

TEST_F(CudaForest, OneCaptureServesAllBatchesOfItsSize) {
  constexpr std::int32_t kRows = 64;
  std::mt19937_64 random(8);
  // One table of a fixed width, in which every replay finds other requests, padded rows and stale entries.
  RandomBatch batch = long_rows(kRows, 32, 32);
  DeviceForest device(batch, true, false);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  device.launch(has_clusters(), stream);
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
    check(cudaGraphLaunch(replay, stream));
    check(cudaStreamSynchronize(stream));
    ASSERT_EQ(device.report().kept, 0);
    ASSERT_EQ(to_text(device.forest()), team_text(build_forest(batch.view())));
    check(cudaGraphLaunch(replay, stream));
    check(cudaStreamSynchronize(stream));
    ASSERT_EQ(device.report().kept, 1) << "nothing has changed";
  }
  check(cudaGraphExecDestroy(replay));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
}

TEST_F(CudaForest, AfterAnotherBatchOfAsManyRows) {
  for (int seed = 1; seed <= scaled(160); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    constexpr std::int32_t kMostRows[] = {24, 300, 1100, 2500};
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    RandomBatch batch = make_team_batch(static_cast<std::uint64_t>(seed), kMostRows[seed % 4]);
    batch.num_pages = std::int64_t{1} << 30;
    DeviceForest device(batch, true, seed / 4 % 2 == 0);
    const bool cluster = has_clusters() && seed / 8 % 2 == 0;
    const auto expect_forest = [&] {
      batch.lay_out_table();
      device.overwrite(batch);
      device.launch(cluster);
      if (device.report().kept != 0) return;  // only rows without tokens of their own have changed
      ASSERT_EQ(to_text(device.forest()), team_text(build_forest(batch.view())));
    };
    ASSERT_NO_FATAL_FAILURE(expect_forest());
    // Rows that have their last node to themselves lose a token: the same shape. Queries are at most 5.
    const Forest forest = build_forest(batch.view());
    bool shorter = false;
    for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
      if (forest.requests[row].node < 0 || batch.kv_lens[row] < 6) continue;
      const ForestNode& node = forest.nodes[static_cast<std::size_t>(forest.requests[row].node)];
      if (node.requests.size() > 1 || node.end - node.begin < 2) continue;
      --batch.kv_lens[row];
      shorter = true;
    }
    if (!shorter) continue;
    ASSERT_NO_FATAL_FAILURE(expect_forest());
    // All pages are others: the same owners. Then some rows go on with new pages, or begin as others do.
    for (auto& pages : batch.row_pages) {
      for (std::int64_t& page : pages) page += page == batch.null_page ? 0 : 2000000;
    }
    ASSERT_NO_FATAL_FAILURE(expect_forest());
    for (int changes = uniform(random, 1, 5); changes > 0; --changes) {
      const auto last = static_cast<std::int32_t>(batch.row_pages.size()) - 1;
      auto& pages = batch.row_pages[static_cast<std::size_t>(uniform(random, 0, last))];
      const auto& others = batch.row_pages[static_cast<std::size_t>(uniform(random, 0, last))];
      const std::size_t half = pages.size() / 2;
      for (std::size_t page = 0; page < pages.size(); ++page) {
        pages[page] = page < half && page < others.size() ? others[page] : batch.num_pages++;
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_forest());
  }
}

TEST_F(CudaForest, LengthsThatDoNotFitAreCountedAndEmpty) {
  RandomBatch batch = long_rows(8, 4, 2);
  DeviceForest device(batch, true, false);
  batch.kv_lens = {64, -1, 64, std::numeric_limits<std::int32_t>::max(), 0, 64, 64, 64};
  device.overwrite(batch);
  for (int launches = 0; launches < 2; ++launches) {
    device.launch(has_clusters());
    const TeamFaults faults = device.report().found.faults;
    EXPECT_EQ(device.report().kept, 0) << "faults are counted at every step";
    EXPECT_EQ(faults.lengths, 2);
    EXPECT_EQ(faults.first_length, 1);
    EXPECT_EQ(faults.length, -1);
  }
  batch.kv_lens[1] = batch.kv_lens[3] = 0;
  EXPECT_EQ(to_text(device.forest()), team_text(build_forest(batch.view())));
}

}  // namespace
}  // namespace trunkline::testing
