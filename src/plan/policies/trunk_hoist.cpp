#include "plan/policies/trunk_hoist.hpp"

#include <algorithm>
#include <cstddef>

#include "plan/load.hpp"
#include "plan/policies/node_packs.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

bool may_hoist(const PolicyInput& input) {
  using experimental::TrunkHoist;
  switch (input.study().trunk_hoist) {
    case TrunkHoist::kByCost: return true;
    case TrunkHoist::kByDevice: return input.profile.device == Device::kCpu;
    case TrunkHoist::kNever: break;
  }
  return false;
}

/// Cost of a node's tokens as a part of the tiles that its members are in, all of whose rows they are multiplied with.
Nanoseconds cost_in_tiles(const TaskCosts& costs, const TrunkWidth& width, const ForestNode& node,
                          std::int32_t queries) {
  const std::int32_t tiles = queries <= width.max_queries ? 1 : ceil_div(queries, width.max_queries);
  const std::int32_t rows = costs.rows(width.max_queries, width.rows, width.halves);
  return tiles * (costs.task(node.tokens(), node.tokens(), rows, 0) - costs.item);
}

/// Cost of the same tokens in packs of their own.
Nanoseconds cost_alone(const PolicyInput& input, const ForestNode& node, std::int32_t queries) {
  const TaskCosts& costs = input.costs.tasks();
  const std::int32_t packs = queries <= input.tiles.max_queries() ? 1 : ceil_div(queries, input.tiles.max_queries());
  const std::int32_t held = packs == 1 ? queries : ceil_div(queries, packs);
  return packs * item_rows(held, input.tiles, costs).load(node.tokens(), held).uncut_cost(costs);
}

}  // namespace

void choose_hoisted(const PolicyInput& input, TrunkScratch& scratch) {
  scratch.hoisted.assign(input.forest.nodes.size(), 0);
  if (!may_hoist(input)) return;
  for (std::size_t i = 0; i < input.forest.nodes.size(); ++i) {
    const ForestNode& node = input.forest.nodes[i];
    const std::int32_t queries = input.order.positions(node.requests).size();
    if (queries == 0) continue;
    const Nanoseconds in_tiles = cost_in_tiles(input.costs.tasks(), scratch.widths.front(), node, queries);
    scratch.hoisted[i] = cost_alone(input, node, queries) < in_tiles ? 1 : 0;
  }
}

void pack_hoisted(const PolicyInput& input, Packs& packs) {
  for (std::size_t i = 0; i < input.forest.nodes.size(); ++i) {
    if (input.scratch.trunk.hoisted[i] == 0) continue;
    add_node_pack(input, static_cast<std::int32_t>(i), input.forest.nodes[i].begin, packs);
  }
}

}  // namespace trunkline
