#include "plan/estimates.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/inline.hpp"
#include "plan/load.hpp"
#include "plan/policies/chain_packs.hpp"
#include "plan/policies/trunk.hpp"

namespace trunkline {
namespace {

// `trunk`, for GPUs, last.
constexpr std::array kCandidates = {Policy::kFlat, Policy::kNode, Policy::kProfit, Policy::kTrunk};

/// Collects the loads of a policy's packs.
class Loads {
 public:
  Loads(const PolicyInput& input, EstimateScratch& scratch) : input_(input), scratch_(scratch) {
    scratch_.loads.clear();
    scratch_.loads.reserve(input.forest.nodes.size());
  }

  /// A pack, spread as evenly as queries allow where it is wider than an item.
  /// \param merged how many of its queries other packs hold too
  void add(std::int64_t tokens, std::int32_t queries, std::int32_t merged) {
    estimate_.entries += queries;
    if (queries > max_queries_) return spread(tokens, queries, merged);
    estimate_.tokens_read += tokens;
    add_item(tokens, queries, merged);
  }
  void add(const TaskLoad& load) {
    scratch_.loads.push_back(load);
    estimate_.tokens_read += load.tokens;
    estimate_.entries += load.queries;
  }

  Estimate finish(bool few_partials = false) {
    TaskCosts costs = input_.costs.tasks();
    costs.set_rereads(input_.order.needed_tokens(), estimate_.tokens_read);
    CutChoice cut(costs, scratch_.classes, few_partials);
    TaskLoad* const loads = scratch_.loads.data();
    const auto load_at = [loads](std::int32_t i) -> TaskLoad& { return loads[i]; };
    const auto count = static_cast<std::int32_t>(scratch_.loads.size());
    Nanoseconds time = cut.choose(count, load_at);
    // A GPU's few long tasks leave workers idle of which the bound knows nothing: agentic_weka's 46 items took 11 %
    // more.
    if (input_.profile.device == Device::kCuda && cut.classify(count, load_at) * costs.kv_heads <= kFewTasks)
      time = std::max(time, placed_time(costs));
    estimate_.time = time + costs.launch;
    return estimate_;
  }

 private:
  // Placing more one by one takes longer than planning may.
  static constexpr std::int64_t kFewTasks = 1024;

  Nanoseconds placed_time(const TaskCosts& costs) const {
    const Nanoseconds makespan = scratch_.classes.makespan(costs.workers, costs.kv_heads, scratch_.worker_loads);
    return costs.finish(makespan, scratch_.classes.ideal_of_busy(costs.workers, costs.kv_heads));
  }

  TRUNKLINE_NOINLINE void spread(std::int64_t tokens, std::int32_t queries, std::int32_t merged) {
    const std::int32_t packs = ceil_div(queries, input_.tiles.max_queries());
    const std::int32_t even = queries / packs;
    const std::int32_t fuller = queries % packs;
    for (std::int32_t pack = 0; pack < packs; ++pack) add_item(tokens, even + (pack < fuller ? 1 : 0), merged / packs);
    estimate_.tokens_read += tokens * packs;
  }
  TRUNKLINE_NOINLINE void look_up(std::int32_t queries) {
    last_ = item_rows(queries, input_.tiles, input_.costs.tasks());
  }
  void add_item(std::int64_t tokens, std::int32_t queries, std::int32_t merged) {
    if (queries != last_.queries) look_up(queries);
    scratch_.loads.push_back(last_.load(tokens, merged));
  }

  const PolicyInput& input_;
  EstimateScratch& scratch_;
  const std::int32_t max_queries_ = input_.tiles.max_queries();
  ItemRows last_;  // most items have as many queries as the one before
  Estimate estimate_;
};

Estimate estimate_flat(const PolicyInput& input, EstimateScratch& scratch) {
  Loads loads(input, scratch);
  for (const ForestRequest& request : input.forest.requests) {
    if (request.queries > 0) loads.add(request.kv_len, request.queries, 0);
  }
  return loads.finish();
}

/// Queries of the requests that end at a node.
std::int32_t ending_queries(const PolicyInput& input, std::int32_t node) {
  return input.order.positions(input.forest.ending_at(node)).size();
}

Estimate estimate_node(const PolicyInput& input, EstimateScratch& scratch) {
  Loads loads(input, scratch);
  for (std::size_t i = 0; i < input.forest.nodes.size(); ++i) {
    const ForestNode& node = input.forest.nodes[i];
    const std::int32_t queries = input.order.positions(node.requests).size();
    if (queries == 0) continue;
    const bool root = node.parent < 0;
    loads.add(node.tokens(), queries, root ? queries - ending_queries(input, static_cast<std::int32_t>(i)) : queries);
  }
  return loads.finish();
}

Estimate estimate_profit(const PolicyInput& input, EstimateScratch& scratch) {
  Loads loads(input, scratch);
  const std::span<const ChainPack> chains = assign_profit(input);
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const auto queries = static_cast<std::int32_t>(chains[i].queries);
    if (queries == 0) continue;
    const bool whole_path = chains[i].begin == 0;
    const std::int32_t ending = whole_path ? ending_queries(input, static_cast<std::int32_t>(i)) : 0;
    loads.add(input.forest.nodes[i].end - chains[i].begin, queries, queries - ending);
  }
  return loads.finish();
}

Estimate estimate_trunk(const PolicyInput& input, EstimateScratch& scratch) {
  const TrunkTiles chosen = choose_trunk(input);
  Loads loads(input, scratch);
  for (std::size_t i = 0; i < input.forest.nodes.size(); ++i) {
    if (input.scratch.trunk.hoisted[i] == 0) continue;
    const ForestNode& node = input.forest.nodes[i];
    const std::int32_t queries = input.order.positions(node.requests).size();
    loads.add(node.tokens(), queries, queries);
  }
  for (const TrunkTile& tile : chosen.tiles) loads.add(tile.load);
  return loads.finish(true);
}

/// `flat` reads all tokens of all requests that have queries: where they share much, that alone takes longer than
/// another policy's plan.
Nanoseconds least_flat(const PolicyInput& input) {
  std::int64_t tokens = 0;
  for (const ForestRequest& request : input.forest.requests) tokens += request.queries > 0 ? request.kv_len : 0;
  CostModel costs = input.costs;
  costs.set_rereads(input.order.needed_tokens(), tokens);
  return costs.least_time(tokens);
}

/// `node` has an item for each node, with partials for all but the roots.
Nanoseconds least_node(const PolicyInput& input) {
  const Forest& forest = input.forest;
  if (input.order.needed_tokens() < forest.distinct_tokens) return input.costs.launch();  // some have no queries
  std::int64_t roots = 0;
  for (std::size_t i = 0; i < forest.nodes.size(); i = static_cast<std::size_t>(forest.nodes[i].last)) ++roots;
  const auto nodes = static_cast<std::int64_t>(forest.nodes.size());
  return input.costs.least_time(forest.distinct_tokens, nodes, nodes - roots);
}

/// `profit` has one for each chain that has kept queries, with partials where it does not read whole paths.
Nanoseconds least_profit(const PolicyInput& input) {
  const std::span<const ChainPack> chains = assign_profit(input);
  std::int64_t tokens = 0;
  std::int64_t items = 0;
  std::int64_t merged_items = 0;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    if (chains[i].queries == 0) continue;
    tokens += input.forest.nodes[i].end - chains[i].begin;
    ++items;
    merged_items += chains[i].begin > 0 ? 1 : 0;
  }
  return input.costs.least_time(tokens, items, merged_items);
}

}  // namespace

Nanoseconds least_time_of(Policy policy, const PolicyInput& input) {
  switch (policy) {
    case Policy::kFlat: return least_flat(input);
    case Policy::kNode: return least_node(input);
    case Policy::kProfit: return least_profit(input);
    default: return input.costs.launch();
  }
}

std::span<const Policy> auto_candidates(Device device) {
  return std::span(kCandidates).first(device == Device::kCuda ? kCandidates.size() : kCandidates.size() - 1);
}

Estimate estimate_policy(Policy policy, const PolicyInput& input, EstimateScratch& scratch) {
  switch (policy) {
    case Policy::kNode: return estimate_node(input, scratch);
    case Policy::kProfit: return estimate_profit(input, scratch);
    case Policy::kTrunk: return estimate_trunk(input, scratch);
    default: return estimate_flat(input, scratch);
  }
}

}  // namespace trunkline
