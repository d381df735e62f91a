// `balanced`: a reconstruction of FlashForge, later CoDec, from its abstract and from descriptions of its method. The
// code released as CoDec has no estimator, division or scheduler (docs/concepts/policies.md). One task per forest node;
// a cost estimator C(rows, tokens); a lower bound of the makespan, found by binary search, that says into how many
// parts along KV each node is divided. Longest task first is every plan's schedule.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/load.hpp"
#include "plan/policies/node_packs.hpp"
#include "plan/policies/policy_table.hpp"

namespace trunkline {
namespace {

// Parts are not shorter: a KV tile of most kernels, and the granule of a plan's cuts.
constexpr std::int32_t kMinPartTokens = 64;
// Sums stay at this, 13 days, so that they overflow for no batch.
constexpr Nanoseconds kMaxWork = Nanoseconds{1} << 50;

Nanoseconds work_of(Nanoseconds cost, std::int64_t tasks) {
  return cost > kMaxWork / tasks ? kMaxWork : cost * tasks;
}

/// A node's tasks: where its queries do not fit one item, several of nearly as many each.
struct NodeTasks {
  std::int32_t count = 1;
  std::int32_t queries = 0;  ///< of one
  std::int32_t tokens = 0;

  std::int32_t max_parts() const { return std::max(tokens / kMinPartTokens, 1); }
  std::int32_t part_tokens(std::int32_t parts) const {
    return static_cast<std::int32_t>(ceil_div<std::int64_t>(tokens, parts));
  }
};

class Divisions {
 public:
  explicit Divisions(const PolicyInput& input) : input_(input), whole_costs_(input.scratch.costs) {
    input.scratch.measured.reset(input.profile.cost_table, input.shape.head_dim_qk);
    whole_costs_.clear();
    for (const ForestNode& node : input.forest.nodes) {
      const NodeTasks tasks = tasks_of(node);
      whole_costs_.push_back(estimate(tasks, 1));
    }
  }

  /// The least makespan X for which sum of d(X) C(queries, tokens / d(X)), over all tasks and KV heads, is no more than
  /// X on all workers, d(X) being the fewest parts that cost at most X each. Every X above it meets the condition too,
  /// but for parts of uneven length; the search then ends at one that does.
  Nanoseconds bound() const;
  /// d(X) of a node.
  std::int32_t parts(std::size_t node, Nanoseconds makespan) const;

 private:
  NodeTasks tasks_of(const ForestNode& node) const;
  Nanoseconds estimate(const NodeTasks& tasks, std::int32_t parts) const;
  bool fits(Nanoseconds makespan) const;

  const PolicyInput& input_;
  std::vector<Nanoseconds>& whole_costs_;  // of one of a node's tasks, undivided
};

NodeTasks Divisions::tasks_of(const ForestNode& node) const {
  const std::int32_t queries = input_.order.positions(node.requests).size();
  const std::int64_t count = std::max<std::int64_t>(ceil_div<std::int64_t>(queries, input_.tiles.max_queries()), 1);
  return {static_cast<std::int32_t>(count), static_cast<std::int32_t>(ceil_div<std::int64_t>(queries, count)),
          node.tokens()};
}

/// C(rows, tokens) of one part, from measurement where the profile has one. The cost model's estimate has a partial for
/// each query, since what is divided, or has nodes above or below, leaves them.
Nanoseconds Divisions::estimate(const NodeTasks& tasks, std::int32_t parts) const {
  const std::int32_t tokens = tasks.part_tokens(parts);
  const MeasuredCosts& measured = input_.scratch.measured;
  if (!measured.empty()) return measured.task(tasks.queries * input_.shape.group_size(), tokens);
  const TaskCosts& costs = input_.costs.tasks();
  return item_rows(tasks.queries, input_.tiles, costs).load(tokens, tasks.queries).uncut_cost(costs);
}

// The estimate does not rise with the number of parts.
std::int32_t Divisions::parts(std::size_t node, Nanoseconds makespan) const {
  if (whole_costs_[node] <= makespan) return 1;
  const NodeTasks tasks = tasks_of(input_.forest.nodes[node]);
  std::int32_t too_few = 1;
  std::int32_t enough = tasks.max_parts();
  while (enough - too_few > 1) {
    const std::int32_t middle = too_few + (enough - too_few) / 2;
    (estimate(tasks, middle) <= makespan ? enough : too_few) = middle;
  }
  return enough;
}

bool Divisions::fits(Nanoseconds makespan) const {
  const Nanoseconds capacity = work_of(makespan, input_.costs.workers()) / input_.costs.kv_heads();
  Nanoseconds work = 0;
  for (std::size_t i = 0; i < whole_costs_.size(); ++i) {
    const NodeTasks tasks = tasks_of(input_.forest.nodes[i]);
    const std::int32_t divisions = parts(i, makespan);
    const Nanoseconds cost = divisions == 1 ? whole_costs_[i] : estimate(tasks, divisions);
    work += work_of(cost, std::int64_t{divisions} * tasks.count);
    if (work > capacity) return false;
  }
  return true;
}

// Dividing is taken to save no work, so workers that share the undivided work evenly are a lower limit, and where that
// is more than any task there is nothing to search.
Nanoseconds Divisions::bound() const {
  Nanoseconds smallest = 0;  // the dearest of the smallest parts
  Nanoseconds longest = 0;   // undivided task
  Nanoseconds work = 0;
  for (std::size_t i = 0; i < whole_costs_.size(); ++i) {
    const NodeTasks tasks = tasks_of(input_.forest.nodes[i]);
    smallest = std::max(smallest, estimate(tasks, tasks.max_parts()));
    longest = std::max(longest, whole_costs_[i]);
    work = std::min(work + work_of(whole_costs_[i], tasks.count), kMaxWork);
  }
  const Nanoseconds share = ceil_div<Nanoseconds>(work * input_.costs.kv_heads(), input_.costs.workers());
  Nanoseconds low = std::max(smallest, share);
  Nanoseconds high = std::max(longest, share);
  while (low < high) {
    const Nanoseconds middle = low + (high - low) / 2;
    if (fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

}  // namespace

void pack_balanced(const PolicyInput& input, Packs& packs) {
  const Divisions divisions(input);
  const Nanoseconds makespan = divisions.bound();
  const std::span<const ForestNode> nodes = input.forest.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    packs.cut(divisions.parts(i, makespan));
    add_node_pack(input, static_cast<std::int32_t>(i), nodes[i].begin, packs);
  }
  add_empty_requests(input, packs);
}

}  // namespace trunkline
