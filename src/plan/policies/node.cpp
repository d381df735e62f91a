// `node`: one pack per forest node with all its members' queries; PAT-naive (PAT, section 8.5) and DeFT-Node. With
// PolicyOptions::node_chunk, one per chunk of a node: DeFT-Node-Chunk.
#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/policies/node_packs.hpp"
#include "plan/policies/policy_table.hpp"

namespace trunkline {

void pack_node(const PolicyInput& input, Packs& packs) {
  const std::span<const ForestNode> nodes = input.forest.nodes;
  const std::int32_t chunk = input.options.node_chunk;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const ForestNode& node = nodes[i];
    std::int32_t begin = node.begin;
    while (chunk > 0 && node.end - begin > chunk) {
      packs.add_pack(input.order.positions(node.requests), {node.row, begin, begin + chunk});
      begin += chunk;
    }
    add_node_pack(input, static_cast<std::int32_t>(i), begin, packs);
  }
  add_empty_requests(input, packs);
}

Estimate estimate_node(const PolicyInput& input, EstimateScratch& scratch) {
  EstimateLoads loads(input, scratch);
  for (std::size_t i = 0; i < input.forest.nodes.size(); ++i) {
    const ForestNode& node = input.forest.nodes[i];
    const std::int32_t queries = input.order.positions(node.requests).size();
    if (queries == 0) continue;
    const bool root = node.parent < 0;
    loads.add(node.tokens(), queries, root ? queries - ending_queries(input, static_cast<std::int32_t>(i)) : queries);
  }
  return loads.finish();
}

// Each node is an item, with partials for all but the roots.
Nanoseconds min_time_of_node(const PolicyInput& input) {
  const Forest& forest = input.forest;
  if (input.order.needed_tokens() < forest.distinct_tokens) return input.costs.launch();  // some have no queries
  std::int64_t roots = 0;
  for (std::size_t i = 0; i < forest.nodes.size(); i = static_cast<std::size_t>(forest.nodes[i].last)) ++roots;
  const auto nodes = static_cast<std::int64_t>(forest.nodes.size());
  return input.costs.min_time(forest.distinct_tokens, nodes, nodes - roots);
}

}  // namespace trunkline
