// `node`: one pack per forest node with all its members' queries; PAT-naive (PAT, section 8.5) and DeFT-Node.
#include <cstddef>
#include <span>

#include "plan/policies/policy_table.hpp"

namespace trunkline {

void pack_node(const PolicyInput& input, Packs& packs) {
  const std::span<const ForestNode> nodes = input.forest.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const ForestNode& node = nodes[i];
    if (node.requests.size() == 1) {
      add_private_pack(input, node.requests.begin, node.begin, packs);
      continue;
    }
    packs.add_segment({node.row, node.begin, node.end});
    const Range ending = add_ending_queries(input, static_cast<std::int32_t>(i), packs);
    packs.add_queries(input.order.positions({ending.end, node.requests.end}));
    packs.close();
  }
  add_empty_requests(input, packs);
}

}  // namespace trunkline
