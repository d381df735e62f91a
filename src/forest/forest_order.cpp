#include "forest/forest_order.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trunkline {
namespace {

constexpr std::int32_t kAboveRoots = -1;  // a node that all others are below

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

void ForestOrder::emit(std::span<const LooseNode> nodes, std::span<const std::int32_t> end_node, Forest& forest) {
  count(nodes, end_node);
  lay_out_nodes(nodes, forest);
  lay_out_rows(end_node, forest);
}

/// Finds the nodes, and what each and those below it hold. The nodes whose first member is some row are the lowest of
/// that row's path. So a walk up from the ends of the rows, last row first, meets each node after all below it, and
/// backwards each before them, children by rising first row: no sorting is needed.
void ForestOrder::count(std::span<const LooseNode> nodes, std::span<const std::int32_t> end_node) {
  // A forest of B rows has fewer than 2 B nodes: each ends a row or has two children. Room for all of them, so that
  // memory is taken only for more rows than ever before.
  places_.reserve(2 * end_node.size() + 1);
  places_.assign(nodes.size() + 1, Place{});
  found_.resize(std::max(found_.size(), 2 * end_node.size()));
  std::size_t count = 0;
  for (auto row = static_cast<std::int32_t>(end_node.size()) - 1; row >= 0; --row) {
    std::int32_t node = end_node[at(row)];
    if (node < 0) continue;
    ++place(node).ends;
    while (node >= 0 && nodes[at(node)].row == row) {
      Place& found = place(node);
      found.nodes += 1;
      found.rows += found.ends;
      found_[count++] = node;
      node = nodes[at(node)].parent;
      place(node).nodes += found.nodes;
      place(node).rows += found.rows;
    }
  }
}

/// A subtree is one range of the nodes, and its members are one of the rows: each takes the next of its parent's.
void ForestOrder::lay_out_nodes(std::span<const LooseNode> nodes, Forest& forest) {
  const std::int32_t count = place(kAboveRoots).nodes;
  place(kAboveRoots) = {0, 0, place(kAboveRoots).rows, -1};
  forest.nodes.reserve(found_.size());
  forest.nodes.resize(at(count));
  std::int64_t distinct = 0;
  for (std::size_t i = at(count); i-- > 0;) {
    const LooseNode& from = nodes[at(found_[i])];
    Place& to = place(found_[i]);
    Place& above = place(from.parent);
    const Range members = {above.rows, above.rows + to.rows};
    const Range subtree = {above.nodes, above.nodes + to.nodes};
    const std::int32_t depth = from.parent < 0 ? 0 : forest.nodes[at(above.index)].depth + 1;
    forest.nodes[at(subtree.begin)] = {above.index, from.begin, from.end, from.row, members, subtree.end, depth};
    above.rows = members.end;
    above.nodes = subtree.end;
    to = {subtree.begin + 1, members.begin + to.ends, members.begin, subtree.begin};
    distinct += from.end - from.begin;
  }
  forest.distinct_tokens = distinct;
}

/// The rows that end in a node come before those of its children; empty ones come last.
void ForestOrder::lay_out_rows(std::span<const std::int32_t> end_node, Forest& forest) {
  forest.order.resize(end_node.size());
  for (std::size_t row = 0; row < end_node.size(); ++row) {
    Place& end = place(end_node[row]);
    forest.order[at(end.ends++)] = static_cast<std::int32_t>(row);
    forest.requests[row].node = end.index;
  }
}

}  // namespace trunkline
