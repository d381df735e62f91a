// `node`: one pack per forest node with all its members' queries; PAT-naive (PAT, section 8.5) and DeFT-Node. With
// PolicyOptions::node_chunk, one per chunk of a node: DeFT-Node-Chunk.
#include <cstddef>
#include <cstdint>
#include <span>

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

}  // namespace trunkline
