// `cascade`: one prefix common to the whole batch, then each request's suffix: RelayAttention, Hydragen, and what
// engines call cascade attention. Without such a prefix it is `flat`.
#include <cstddef>

#include "plan/policies/node_packs.hpp"
#include "plan/policies/policy_table.hpp"

namespace trunkline {

void pack_cascade(const PolicyInput& input, Packs& packs) {
  const Forest& forest = input.forest;
  const auto requests = static_cast<std::int32_t>(forest.order.size());
  std::int32_t common = 0;  // tokens of the common prefix
  const bool one_root = !forest.nodes.empty() && static_cast<std::size_t>(forest.nodes[0].last) == forest.nodes.size();
  if (one_root && forest.nodes[0].requests.size() > 1) {
    common = forest.nodes[0].end;
    packs.add_pack(input.order.positions(forest.nodes[0].requests), {forest.nodes[0].row, 0, common});
  }
  const std::int32_t members = common > 0 ? forest.nodes[0].requests.end : requests;
  for (std::int32_t i = 0; i < members; ++i) add_private_pack(input, i, common, packs);
  if (common > 0) add_empty_requests(input, packs);
}

}  // namespace trunkline
