// `profit`: PAT's pack scheduler (PAT, section 5.1, algorithm 1).
#include <cstdint>
#include <vector>

#include "plan/policies/policy_table.hpp"

namespace trunkline {
namespace {

// PAT's equation 2 less its equation 1: a merge saves its child's s queries partials, counted as 4 s d elements since
// they are fp32, and reads the parent's l tokens once more, l d elements.
constexpr std::int64_t kPartialTokensPerQuery = 4;

}  // namespace

// A pack that holds a parent's tokens from `chain` on gives up the queries of a child that has enough of them to pay
// for reading those tokens once more; the child's pack then begins at `chain` too. Nodes are in pre-order, so one pass
// decides each child before it is visited.
void pack_profit(const PolicyInput& input, Packs& packs) {
  const Forest& forest = input.forest;
  std::vector<std::int32_t>& chain = input.node_scratch;
  chain.resize(forest.nodes.size());
  for (std::size_t i = 0; i < forest.nodes.size(); ++i) {
    if (forest.nodes[i].parent < 0) chain[i] = forest.nodes[i].begin;
  }
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(forest.nodes.size()); ++i) {
    const ForestNode& node = forest.nodes[static_cast<std::size_t>(i)];
    const std::int32_t begin = chain[static_cast<std::size_t>(i)];
    if (node.requests.size() == 1) {
      add_private_pack(input, node.requests.begin, begin, packs);
      continue;
    }
    packs.add_segment({node.row, begin, node.end});
    add_ending_queries(input, i, packs);
    for (std::int32_t c = i + 1; c < node.last; c = forest.nodes[static_cast<std::size_t>(c)].last) {
      const ForestNode& child = forest.nodes[static_cast<std::size_t>(c)];
      const Range queries = input.order.positions(child.requests);
      const bool merge = kPartialTokensPerQuery * queries.size() >= node.end - begin;
      chain[static_cast<std::size_t>(c)] = merge ? begin : child.begin;
      if (!merge) packs.add_queries(queries);
    }
    packs.close();
  }
  add_empty_requests(input, packs);
}

}  // namespace trunkline
