// What tiling needs of each request, loaded by each block into its own memory.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/team.hpp"

namespace trunkline {

/// By one block. Where tiles hold all requests that have tokens, as in most batches, what is loaded lies where it
/// belongs, and it takes two barriers.
template <class Block>
class RequestLoader {
 public:
  /// \param tells others what they need of it
  TRUNKLINE_HOST_DEVICE RequestLoader(Block& block, const PlanTask& task, bool tells)
      : block_(block), task_(task), own_(task.block), publish_(tells || task.memory.near != 0) {}

  TRUNKLINE_HOST_DEVICE void load() {
    own_.clear_few_classes(block_);
    if (task_.rows_told) return place_told();
    const Counts counts = read_forest();
    if (counts.listed == counts.full) {
      place_all(counts);
    } else {
      place_listed(counts);
      if (publish_) count_tails();
    }
  }

  /// By one thread. \param hot tokens that several requests read
  TRUNKLINE_HOST_DEVICE static void name_costs(const PlanTask& task, std::int64_t hot) {
    task.block.state->costs = task.machine.batch_costs(task.forest.query_begin[task.forest.rows], hot);
  }

 private:
  struct Counts {
    std::int32_t listed;  ///< requests that have tokens and queries
    std::int32_t full;    ///< that have tokens: these come before all others
    std::int64_t hot;     ///< tokens that several requests read
  };

  /// Each request's tokens, those in common with the one before, and whether it is listed; by index of Forest::order.
  TRUNKLINE_HOST_DEVICE Counts read_forest() {
    enum : std::size_t { kRequests, kHot, kSums };
    using Sums = TeamWords<kSums>;
    const PlanTask& task = task_;
    const bool publish = publish_;
    const std::int32_t rows = task_.forest.rows;
    const std::int32_t nodes = task_.forest.node_count;
    const Sums sums = block_.sum(most(rows, nodes), Sums{}, [&task, publish, rows, nodes](std::int32_t i) {
      const BlockMemory& own = task.block;
      // All is read before anything is written: reads cannot be moved ahead of that.
      const NodeFound begun = i < nodes ? node_at(task.forest, i) : NodeFound{};
      const RequestFound found = i < rows ? request_at(task.forest, i) : RequestFound{};
      // Of the nodes that begin at a request the topmost is where it leaves the one before; where none begins, it ends
      // with the one before.
      if (begun.topmost) own.shared[begun.first_request] = begun.tokens_above;
      if (i >= rows) return Sums{{0, begun.hot}};
      if (!found.begins_node) own.shared[i] = most(found.tokens, 0);
      own.tokens[i] = found.tokens;
      const bool full = found.tokens >= 0;
      const bool listed = full && found.queries > 0;
      own.listed[i] = (std::int64_t{listed ? 1 : 0} << 32) + found.queries;
      // Most batches have a query a row: few have to tell that they have more.
      if (found.queries > Block::peek(own.state->widest)) Block::fetch_greatest(own.state->widest, found.queries);
      if (publish) {
        task.memory.queries[i] = found.queries;
        task.memory.path_tokens[i] = found.tokens;
        task.memory.tails_before[i] = found.is_tail ? 1 : 0;
      }
      return Sums{{(std::int64_t{listed ? 1 : 0} << 32) + (full ? 1 : 0), begun.hot}};
    });
    return {static_cast<std::int32_t>(sums.at[kRequests] >> 32), static_cast<std::int32_t>(sums.at[kRequests]),
            sums.at[kHot]};
  }

  struct NodeFound {
    std::int64_t hot = 0;
    std::int32_t first_request = 0;
    std::int32_t tokens_above = 0;
    bool topmost = false;  ///< of the nodes that begin at first_request
  };
  TRUNKLINE_HOST_DEVICE static NodeFound node_at(const TeamForest& forest, std::int32_t i) {
    const ForestNode& node = forest.nodes[i];
    const Range requests = node.requests;
    NodeFound found;
    found.hot = size_of(requests) > 1 ? node.end - node.begin : 0;
    found.first_request = requests.begin;
    found.tokens_above = node.parent < 0 ? 0 : node.begin;
    found.topmost = node.parent < 0 || forest.nodes[node.parent].requests.begin < requests.begin;
    return found;
  }

  struct RequestFound {
    std::int32_t queries = 0;
    std::int32_t tokens = -1;  ///< -1: it is empty
    bool begins_node = false;
    bool is_tail = false;  ///< it ends where others go on
  };
  TRUNKLINE_HOST_DEVICE static RequestFound request_at(const TeamForest& forest, std::int32_t i) {
    const std::int32_t row = forest.order[i];
    const std::int32_t at = forest.node[row];
    RequestFound found;
    found.queries = forest.query_begin[row + 1] - forest.query_begin[row];
    if (at < 0) return found;
    const Range requests = forest.nodes[at].requests;
    found.tokens = forest.nodes[at].end;
    found.begins_node = requests.begin == i;
    found.is_tail = size_of(requests) > 1;
    return found;
  }

  /// Where all requests that have tokens are listed: the others lie behind them.
  TRUNKLINE_HOST_DEVICE void place_all(const Counts& counts) {
    const PlanTask& task = task_;
    const bool publish = publish_;
    const std::int32_t rows = task_.forest.rows;
    using Sums = TeamWords<2>;  // queries and, above 32 bits, tails; tokens
    block_.template scan<Sums>(
        rows,
        [&task, publish](std::int32_t i) {
          const BlockMemory& own = task.block;
          const bool full = own.tokens[i] >= 0;
          const std::int64_t tails = publish ? std::int64_t{task.memory.tails_before[i]} << 32 : 0;
          return Sums{{tails + static_cast<std::int32_t>(own.listed[i]), full ? own.tokens[i] - own.shared[i] : 0}};
        },
        [&task, counts, publish, rows](std::int32_t i, const Sums& before) {
          const BlockMemory& own = task.block;
          const auto position = static_cast<std::int32_t>(before.at[0]);
          if (i <= counts.full) {
            own.query_begin[i] = position;
            own.fresh_before[i] = before.at[1];
          }
          if (publish) {
            task.memory.position[i] = position;
            task.memory.tails_before[i] = static_cast<std::int32_t>(before.at[0] >> 32);
          }
          // By the thread of the last, while others place theirs.
          if (i == most(rows - 1, 0)) name_costs(task, counts.hot);
          if (i == rows) name_requests(task, counts, before.at[1]);
        });
  }

  /// Where each block was told of all (AlikeRequests::take).
  TRUNKLINE_HOST_DEVICE void place_told() {
    const PlanTask& task = task_;
    const std::int32_t rows = task_.forest.rows;
    block_.template scan<std::int64_t>(
        rows, [&task](std::int32_t i) { return std::int64_t{task.block.tokens[i]} - task.block.shared[i]; },
        [&task, rows](std::int32_t i, std::int64_t before) {
          const BlockMemory& own = task.block;
          own.fresh_before[i] = before;
          own.query_begin[i] = i;
          if (i + 1 == rows) name_costs(task, own.state->hot);
          if (i == rows) name_requests(task, {rows, rows, own.state->hot}, before);
        });
  }

  /// Where some have no queries: those that have some are put side by side.
  TRUNKLINE_HOST_DEVICE void place_listed(const Counts& counts) {
    const PlanTask& task = task_;
    const BlockMemory& own = own_;
    const bool publish = publish_;
    const std::int32_t rows = task_.forest.rows;
    block_.each(rows, [&own](std::int32_t i) {
      own.ends[i] = static_cast<std::int32_t>(own.listed[i]);  // queries
      own.jumps[i] = own.listed[i] >> 32 != 0 ? own.tokens[i] : -1;
      own.reached[i] = own.shared[i];
    });
    const auto queries = static_cast<std::int32_t>(block_.scan_exclusive(own.listed, rows));
    block_.each(rows + 1, [&task, &own, counts, publish, rows, queries](std::int32_t i) {
      const PlanMemory& memory = task.memory;
      if (i == rows) {
        if (counts.listed == 0) own.query_begin[0] = 0;
        if (publish) memory.position[rows] = queries;
        name_costs(task, counts.hot);
        return;
      }
      const auto position = static_cast<std::int32_t>(own.listed[i]);
      if (publish) memory.position[i] = position;
      if (own.jumps[i] < 0) return;
      const auto index = static_cast<std::int32_t>(own.listed[i] >> 32);
      std::int32_t shared = index == 0 ? 0 : own.reached[i];
      TRUNKLINE_ROLLED
      for (std::int32_t k = i - 1; index > 0 && own.jumps[k] < 0; --k) shared = least(shared, own.reached[k]);
      own.tokens[index] = own.jumps[i];
      own.shared[index] = shared;
      own.query_begin[index] = position;
      if (index + 1 == counts.listed) own.query_begin[counts.listed] = position + own.ends[i];
      if (publish) memory.try_orders[index] = i;
    });
    block_.template scan<std::int64_t>(
        counts.listed, [&own](std::int32_t i) { return std::int64_t{own.tokens[i]} - own.shared[i]; },
        [&task, counts](std::int32_t i, std::int64_t before) {
          task.block.fresh_before[i] = before;
          if (i == counts.listed) name_requests(task, counts, before);
        });
  }

  /// By one thread.
  TRUNKLINE_HOST_DEVICE static void name_requests(const PlanTask& task, const Counts& counts,
                                                  std::int64_t distinct_tokens) {
    const BlockMemory& own = task.block;
    own.state->requests = {own.tokens,      own.shared, own.fresh_before, own.query_begin, counts.listed,
                           distinct_tokens, false};
    own.state->in_order = counts.listed == counts.full ? 1 : 0;
    own.state->first_width = task.machine.width_for(least(own.state->widest, task.machine.max_queries()));
    own.state->full = counts.full;
  }

  TRUNKLINE_HOST_DEVICE void count_tails() {
    const PlanMemory& memory = task_.memory;
    const std::int32_t rows = task_.forest.rows;
    const std::int32_t tails = block_.scan_exclusive(memory.tails_before, rows);
    block_.once([&memory, rows, tails] { memory.tails_before[rows] = tails; });
  }

  Block& block_;
  const PlanTask& task_;
  const BlockMemory& own_;
  bool publish_;
};

}  // namespace trunkline
