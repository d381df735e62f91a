#include "plan/policies/node_packs.hpp"

namespace trunkline {

Range add_tails(const PolicyInput& input, std::int32_t node, Packs& packs) {
  const Range ending = input.forest.ending_at(node);
  for (std::int32_t i = ending.begin; i < ending.end; ++i) {
    const std::int32_t row = input.forest.order[static_cast<std::size_t>(i)];
    packs.add_tail(row, input.forest.requests[static_cast<std::size_t>(row)].kv_len, input.order.positions_of(i));
  }
  return ending;
}

void add_node_pack(const PolicyInput& input, std::int32_t index, std::int32_t begin, Packs& packs) {
  const ForestNode& node = input.forest.nodes[static_cast<std::size_t>(index)];
  if (node.requests.size() == 1) {
    add_private_pack(input, node.requests.begin, begin, packs);
    return;
  }
  packs.add_segment({node.row, begin, node.end});
  add_tails(input, index, packs);
  packs.add_queries(input.order.positions(node.requests));
  packs.close();
}

void add_empty_requests(const PolicyInput& input, Packs& packs) {
  auto index = static_cast<std::int32_t>(input.forest.order.size());
  while (index > 0) {
    const std::int32_t row = input.forest.order[static_cast<std::size_t>(index - 1)];
    if (input.forest.requests[static_cast<std::size_t>(row)].kv_len > 0) break;
    --index;
  }
  for (; index < static_cast<std::int32_t>(input.forest.order.size()); ++index)
    add_private_pack(input, index, 0, packs);
}

}  // namespace trunkline
