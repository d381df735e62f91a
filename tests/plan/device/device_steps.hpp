// The forest phase of planning on a device, step by step, by threads of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/device/forest_phase.hpp"
#include "plan/device/host_group.hpp"
#include "trunkline/forest.hpp"

namespace trunkline::testing {

/// The threads with which the host runs device code.
struct HostThreads {
  std::uint64_t seed = 0;    ///< seed of the order of parallel iterations; 0: ascending
  std::int32_t threads = 0;  ///< number of real threads; 0: one thread runs all

  template <class F>
  void run(F f) const {
    if (threads > 0) return HostGroup::run_threads(threads, f);
    HostGroup group(seed);
    f(group);
  }
};

/// Memory for so many rows and queries, filled with values that must not be read.
class ForestSteps {
 public:
  ForestSteps(std::int32_t rows, std::int32_t queries) {
    bytes_.assign(lay_out(nullptr, rows, queries), std::byte{0xCD});
    lay_out(bytes_.data(), rows, queries);
    *planned_.step = {};
  }

  /// Compares the batch's rows with the kept rows. \return whether the last plan is right for the batch as well
  bool compare(const trunkline::DeviceBatch& batch, const HostThreads& threads = {}) {
    bool reuse = false;
    for (std::int32_t row = 0; row < batch.rows; ++row) {
      threads.run([&](HostGroup& group) {
        const RowDiff diff = compare_row(group, batch, planned_, row);
        group.once([&] { diffs_[row] = diff; });
      });
    }
    threads.run([&](HostGroup& group) {
      const bool found = may_reuse(group, batch, diffs_, planned_);
      group.once([&] { reuse = found; });
    });
    return reuse;
  }
  /// After compare(). \param growth of rows, for keep(); negative: nothing is kept
  Forest find(const trunkline::DeviceBatch& batch, std::int32_t growth = -1, const HostThreads& threads = {}) {
    threads.run([&](HostGroup& group) {
      DeviceForest forest = forest_;
      forest.rows = batch.rows;
      const BatchFaults faults = find_forest(group, batch, diffs_, scratch_, forest);
      if (growth >= 0) keep_planned_rows(group, forest, scratch_.prefixes, growth, 0, planned_);
      group.once([&] {
        faults_ = faults;
        found_ = forest;
        if (growth >= 0) *planned_.step = {faults.lengths + faults.queries == 0 ? batch.rows : -1, growth};
      });
    });
    return to_forest();
  }
  const BatchFaults& faults() const { return faults_; }
  PlannedStep& step() { return *planned_.step; }

 private:
  std::size_t lay_out(std::byte* base, std::int32_t rows, std::int32_t queries) {
    Arena arena(base);
    scratch_.lay_out(arena, rows);
    forest_.lay_out(arena, rows);
    arena.take(diffs_, rows);
    arena.take(planned_.step, 1);
    arena.take(planned_.rows, rows);
    arena.take(planned_.query_begin, rows + 1);
    arena.take(planned_.query_parents, queries);
    return arena.bytes();
  }
  Forest to_forest() const {
    Forest forest;
    forest.nodes.assign(found_.nodes, found_.nodes + found_.node_count);
    forest.order.assign(found_.order, found_.order + found_.rows);
    forest.total_tokens = found_.total_tokens;
    forest.distinct_tokens = found_.distinct_tokens;
    bool trees = false;
    for (std::int32_t row = 0; row < found_.rows; ++row) {
      forest.requests.push_back({0, 0, found_.kv_len[row], found_.query_begin[row], found_.queries(row),
                                 found_.node[row], found_.tree[row] != 0});
      trees = trees || found_.tree[row] != 0;
    }
    if (trees) {
      forest.query_parents.assign(found_.query_parents, found_.query_parents + found_.query_begin[found_.rows]);
    }
    return forest;
  }

  std::vector<std::byte> bytes_;
  ForestScratch scratch_;
  DeviceForest forest_;
  DeviceForest found_;
  RowDiff* diffs_ = nullptr;
  PlannedRows planned_;
  BatchFaults faults_;
};

}  // namespace trunkline::testing
