// What a sketch needs of requests, where all are alike: found in one step, without sums over those before each.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/near_forest.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/team.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_memory.hpp"

namespace trunkline {

/// Requests that all have tokens, end where no other goes on, and have one query. By one block.
template <class Block>
class AlikeRequests {
 public:
  TRUNKLINE_HOST_DEVICE AlikeRequests(Block& block, const PlanTask& task) : block_(block), task_(task) {}

  /// \return whether they are so: else nothing that is loaded is of use
  TRUNKLINE_HOST_DEVICE bool load() {
    enum : std::size_t { kUnlike, kHot, kSums };
    using Sums = TeamWords<kSums>;
    const PlanTask& task = task_;
    if (task.rows_told) {
      hot_ = task.block.state->hot;
      return true;
    }
    const std::int32_t rows = task_.forest.rows;
    const std::int32_t nodes = task_.forest.node_count;
    const Sums sums = block_.sum(most(rows, nodes), Sums{}, [&task, rows, nodes](std::int32_t i) {
      const std::int64_t hot = i < nodes ? take_node(task, task.forest.nodes[i]) : 0;
      if (i >= rows) return Sums{{0, hot}};
      const bool alike = take_row(task, i);
      put(task, i);
      return Sums{{alike ? 0 : 1, hot}};
    });
    hot_ = sums.at[kHot];
    return sums.at[kUnlike] == 0;
  }
  /// Tokens that several requests read, once that is loaded.
  TRUNKLINE_HOST_DEVICE std::int64_t hot() const { return hot_; }

  /// Where the forest is told row by row instead (NothingBeside::take): also what tiling needs of each. Of no use
  /// where State::unlike is set.
  TRUNKLINE_HOST_DEVICE static void take(const PlanTask& task, const NearRow& row, bool alike) {
    if (!alike) {
      Block::fetch_greatest(task.block.state->unlike, 1);
      return;
    }
    task.block.tokens[row.index] = row.kv_len;
    task.block.shared[row.index] = row.shared;
    task.memory.path_tokens[row.index] = row.kv_len;
    put(task, row.index);
  }
  /// Where a forest that is found elsewhere tells of them (TeamForest::tokens): a block's copy, as NearForest::copy.
  TRUNKLINE_HOST_DEVICE static void copy(Block& block, const PlanTask& task, const TeamForest& from) {
    block.each_at_last(from.rows, [&task, &from](std::int32_t i) {
      copy_ahead<4>(task.block.tokens[i], from.tokens[i]);
      copy_ahead<4>(task.memory.path_tokens[i], from.tokens[i]);
      copy_ahead<4>(task.block.shared[i], from.shared[i]);
      put(task, i);
    });
  }

 private:
  /// The topmost of the nodes that begin at a request is where it leaves the one before.
  /// \return tokens that several requests have
  TRUNKLINE_HOST_DEVICE static std::int64_t take_node(const PlanTask& task, const ForestNode& node) {
    const std::int32_t first = node.requests.begin;
    const bool topmost = node.parent < 0 || task.forest.nodes[node.parent].requests.begin < first;
    if (topmost) task.block.shared[first] = node.parent < 0 ? 0 : node.begin;
    return size_of(node.requests) > 1 ? node.end - node.begin : 0;
  }
  /// What tiling needs of the row of that number: each is looked at once. \return whether it is alone, and has one
  /// query
  TRUNKLINE_HOST_DEVICE static bool take_row(const PlanTask& task, std::int32_t row) {
    const TeamForest& forest = task.forest;
    const std::int32_t number = forest.node[row];
    if (number < 0) return false;
    const ForestNode& node = forest.nodes[number];
    if (size_of(node.requests) != 1 || forest.query_begin[row + 1] - forest.query_begin[row] != 1) return false;
    task.block.tokens[node.requests.begin] = node.end;
    return true;
  }

  /// As RequestLoader has it.
  TRUNKLINE_HOST_DEVICE static void put(const PlanTask& task, std::int32_t i) {
    const PlanMemory& memory = task.memory;
    memory.queries[i] = 1;
    memory.position[i + 1] = i + 1;
    memory.tails_before[i + 1] = 0;
    if (i > 0) return;
    memory.position[0] = memory.tails_before[0] = 0;
    BlockMemory::State& state = *task.block.state;
    state.first_width = 0;
    state.full = task.forest.rows;
    state.in_order = 1;
  }

  Block& block_;
  const PlanTask& task_;
  std::int64_t hot_ = 0;
};

}  // namespace trunkline
