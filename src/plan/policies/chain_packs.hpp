// Packs of node chains: a child takes its queries out of its parent's pack and carries the parent's tokens along. PAT's
// and FastTree's walks are this one and differ in how they decide an edge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/policies/node_packs.hpp"
#include "plan/policies/policy_input.hpp"

namespace trunkline {

/// The figures that decide an edge of the forest.
struct ChainEdge {
  std::int64_t parent_queries = 0;  ///< that the parent's pack still has, the child's among them
  std::int64_t parent_tokens = 0;   ///< of the parent's pack, with those that it carries along itself
  std::int64_t child_queries = 0;
  std::int64_t child_tokens = 0;  ///< of the child's own
};

/// Decides every edge: parents before their children, siblings in their order. Nodes are
/// in pre-order, where the papers go breadth first; an edge's decision depends on those above it and on those to its
/// elder siblings alone, so the order of cousins does not matter.
/// \param merges (const ChainEdge&) -> bool: whether the child leaves the parent's pack
/// \param chains by node
template <class Merges>
void assign_chains(const PolicyInput& input, Merges merges, std::vector<ChainPack>& chains) {
  const std::span<const ForestNode> nodes = input.forest.nodes;
  chains.resize(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    chains[i] = {nodes[i].begin, input.order.positions(nodes[i].requests).size()};
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    ChainPack& parent = chains[i];
    const std::int64_t parent_tokens = nodes[i].end - parent.begin;
    const auto last = static_cast<std::size_t>(nodes[i].last);
    for (std::size_t c = i + 1; c < last; c = static_cast<std::size_t>(nodes[c].last)) {
      ChainPack& child = chains[c];
      if (!merges(ChainEdge{parent.queries, parent_tokens, child.queries, nodes[c].tokens()})) continue;
      child.begin = parent.begin;
      parent.queries -= child.queries;
    }
  }
}

/// Makes the packs of decided edges, and those of empty requests.
/// \param min_rows (queries) -> Packs::use_tile's m for a pack of so many
template <class MinRows>
void pack_chains(const PolicyInput& input, std::span<const ChainPack> chains, MinRows min_rows, Packs& packs) {
  const std::span<const ForestNode> nodes = input.forest.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (chains[i].queries == 0) continue;
    const ForestNode& node = nodes[i];
    packs.use_tile(min_rows(chains[i].queries));
    if (node.requests.size() == 1) {
      add_private_pack(input, node.requests.begin, chains[i].begin, packs);
      continue;
    }
    packs.add_segment({node.row, chains[i].begin, node.end});
    packs.add_queries(input.order.positions(add_tails(input, static_cast<std::int32_t>(i), packs)));
    const auto last = static_cast<std::size_t>(node.last);
    for (std::size_t c = i + 1; c < last; c = static_cast<std::size_t>(nodes[c].last)) {
      const bool stays = chains[c].begin == nodes[c].begin;
      if (stays) packs.add_queries(input.order.positions(nodes[c].requests));
    }
    packs.close();
  }
  add_empty_requests(input, packs);
}

}  // namespace trunkline
