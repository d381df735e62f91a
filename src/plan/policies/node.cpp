// `node`: one pack per forest node with all its members' queries; PAT-naive (PAT, section 8.5) and DeFT-Node.
#include "plan/policies/policy_table.hpp"

namespace trunkline {

void pack_node(const PolicyInput& input, Packs& packs) {
  const Forest& forest = input.forest;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(forest.nodes.size()); ++i) {
    const ForestNode& node = forest.nodes[static_cast<std::size_t>(i)];
    if (node.requests.size() == 1) {
      add_private_pack(input, node.requests.begin, node.begin, packs);
      continue;
    }
    packs.add_segment({node.row, node.begin, node.end});
    add_ending_queries(input, i, packs);
    packs.add_queries(input.order.positions({forest.ending_at(i).end, node.requests.end}));
    packs.close();
  }
  add_empty_requests(input, packs);
}

}  // namespace trunkline
