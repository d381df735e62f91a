// `flatten`: DeFT-Flatten (DeFT, appendix A.8, algorithm 3). The distinct tokens, depth first, are cut into blocks of
// equal length, which may span several nodes and several trees; a block is read by all queries that need any of it,
// with a mask for each run of tokens. Packs may hold any number of queries, so the paper's limit of 64 to a mask is
// none here.
#include <algorithm>
#include <cstdint>

#include "plan/policies/node_packs.hpp"
#include "plan/policies/policy_table.hpp"

namespace trunkline {
namespace {

/// To the open block: a run of a node's tokens, and behind the node's last one the tails of the requests that end
/// there.
void add_run(const PolicyInput& input, std::int32_t index, Range tokens, Packs& packs) {
  const ForestNode& node = input.forest.nodes[static_cast<std::size_t>(index)];
  const Range readers = input.order.positions(node.requests);
  const bool last = tokens.end == node.end;
  const bool own = node.requests.size() == 1;
  packs.add_segment({node.row, tokens.begin, tokens.end, readers, last && own});
  if (last && !own) add_tails(input, index, packs);
}

}  // namespace

// Pre-order, so a node's members come after, or are among, those of all nodes before it: a block's queries are those
// before `covered` that it has already, and what reaches beyond.
void pack_flatten(const PolicyInput& input, Packs& packs) {
  const std::int32_t block = input.options.flatten_block;
  std::int32_t room = block;  // tokens that the open block still takes
  std::int32_t covered = 0;   // positions before this one are in the open block, or never will be
  for (std::size_t i = 0; i < input.forest.nodes.size(); ++i) {
    const ForestNode& node = input.forest.nodes[i];
    const Range members = input.order.positions(node.requests);
    if (members.size() == 0) continue;  // requests without a query need no token
    std::int32_t begin = node.begin;
    while (begin < node.end) {
      const Range tokens = {begin, begin + std::min(room, node.end - begin)};
      packs.add_queries({std::max(covered, members.begin), std::max(covered, members.end)});
      covered = std::max(covered, members.end);
      add_run(input, static_cast<std::int32_t>(i), tokens, packs);
      room -= tokens.size();
      begin = tokens.end;
      if (room > 0) continue;
      packs.close();
      room = block;
      covered = 0;
    }
  }
  packs.close();
  add_empty_requests(input, packs);
}

}  // namespace trunkline
