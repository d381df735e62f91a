// `profit`: PAT's pack scheduler (PAT, section 5.1, algorithm 1).
#include <cstdint>
#include <span>
#include <vector>

#include "plan/policies/policy_table.hpp"

namespace trunkline {
namespace {

// PAT's equation 2 less its equation 1: a merge saves its child's s queries partials, counted as 4 s d elements since
// they are fp32, and reads the parent's l tokens once more, l d elements.
constexpr std::int64_t kPartialTokensPerQuery = 4;

/// Whether a child takes its queries out of a parent's pack, which holds the parent's tokens from `begin` on.
bool merges(const ForestNode& parent, std::int32_t begin, Range child_queries) {
  return kPartialTokensPerQuery * child_queries.size() >= parent.end - begin;
}

}  // namespace

// A pack that holds a parent's tokens from `chain` on gives up the queries of a child that has enough of them to pay
// for reading those tokens once more; the child's pack then begins at `chain` too. Nodes are in pre-order, so one pass
// decides each child before it is visited.
void pack_profit(const PolicyInput& input, Packs& packs) {
  const std::span<const ForestNode> nodes = input.forest.nodes;
  std::vector<std::int32_t>& chain = input.scratch.nodes;
  chain.assign(nodes.size(), 0);  // roots begin at 0
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const ForestNode& node = nodes[i];
    const std::int32_t begin = chain[i];
    if (node.requests.size() == 1) {
      add_private_pack(input, node.requests.begin, begin, packs);
      continue;
    }
    packs.add_segment({node.row, begin, node.end});
    add_ending_queries(input, static_cast<std::int32_t>(i), packs);
    const auto last = static_cast<std::size_t>(node.last);
    for (std::size_t c = i + 1; c < last; c = static_cast<std::size_t>(nodes[c].last)) {
      const ForestNode& child = nodes[c];
      const Range queries = input.order.positions(child.requests);
      const bool merge = merges(node, begin, queries);
      chain[c] = merge ? begin : child.begin;
      if (!merge) packs.add_queries(queries);
    }
    packs.close();
  }
  add_empty_requests(input, packs);
}

}  // namespace trunkline
