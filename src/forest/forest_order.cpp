#include "forest/forest_order.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace trunkline {
namespace {

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
  found_.reserve(2 * end_node.size());
  found_.clear();
  for (auto row = static_cast<std::int32_t>(end_node.size()) - 1; row >= 0; --row) {
    std::int32_t node = end_node[at(row)];
    if (node < 0) continue;
    ++place(node).ends;
    while (node >= 0 && nodes[at(node)].row == row) {
      Place& found = place(node);
      found.nodes += 1;
      found.rows += found.ends;
      found_.push_back(node);
      node = nodes[at(node)].parent;
      place(node).nodes += found.nodes;
      place(node).rows += found.rows;
    }
  }
}

/// A subtree is one range of the nodes, and its members are one of the rows: each takes the next of its parent's.
void ForestOrder::lay_out_nodes(std::span<const LooseNode> nodes, Forest& forest) {
  forest.nodes.reserve(found_.capacity());
  forest.nodes.resize(found_.size());
  std::int64_t distinct = 0;
  for (std::size_t i = found_.size(); i-- > 0;) {
    const LooseNode& from = nodes[at(found_[i])];
    Place& to = place(found_[i]);
    Place& above = place(from.parent);
    to.index = above.next_node;
    above.next_node += to.nodes;
    to.next_end = above.next_row;
    above.next_row += to.rows;
    to.next_node = to.index + 1;
    to.next_row = to.next_end + to.ends;
    to.depth = above.depth + 1;
    const Range members = {to.next_end, to.next_end + to.rows};
    const std::int32_t last = to.index + to.nodes;
    forest.nodes[at(to.index)] = {above.index, from.begin, from.end, from.row, members, last, to.depth};
    distinct += from.end - from.begin;
  }
  forest.distinct_tokens = distinct;
}

/// The rows that end in a node come before those of its children; empty ones come last.
void ForestOrder::lay_out_rows(std::span<const std::int32_t> end_node, Forest& forest) {
  forest.order.resize(end_node.size());
  place(-1).next_end = place(-1).rows;
  for (std::size_t row = 0; row < end_node.size(); ++row) {
    Place& end = place(end_node[row]);
    forest.order[at(end.next_end++)] = static_cast<std::int32_t>(row);
    forest.requests[row].node = end.index;
  }
}

}  // namespace trunkline
