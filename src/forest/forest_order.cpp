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

void ForestOrder::link(std::span<const LooseNode> nodes, std::span<const std::int32_t> end_node) {
  // A forest of B rows has fewer than 2 B nodes: each ends a row or has two children. Room for all of them, so that
  // memory is taken only for more rows than ever before.
  links_.reserve(2 * end_node.size());
  links_.assign(nodes.size(), Links{});
  next_row_.resize(end_node.size());
  first_root_ = -1;
  linked_ = 0;
  // The nodes whose first member is some row are the lowest of that row's path. So a walk up from the ends of the rows,
  // last row first, meets the children of each node by falling first row, and no sorting is needed.
  for (auto row = static_cast<std::int32_t>(end_node.size()) - 1; row >= 0; --row) {
    std::int32_t node = end_node[at(row)];
    if (node < 0) continue;
    next_row_[at(row)] = links_[at(node)].first_row;
    links_[at(node)].first_row = row;
    while (node >= 0 && nodes[at(node)].row == row) {
      const std::int32_t parent = nodes[at(node)].parent;
      std::int32_t& first = parent < 0 ? first_root_ : links_[at(parent)].first_child;
      links_[at(node)].next_sibling = first;
      ++linked_;
      first = node;
      node = parent;
    }
  }
}

void ForestOrder::open(std::span<const LooseNode> nodes, std::int32_t node, Forest& forest) {
  const LooseNode& from = nodes[at(node)];
  Links& links = links_[at(node)];
  links.index = opened_++;
  const std::int32_t parent = from.parent < 0 ? -1 : links_[at(from.parent)].index;
  const std::int32_t depth = parent < 0 ? 0 : forest.nodes[at(parent)].depth + 1;
  forest.nodes[at(links.index)] = {parent, from.begin, from.end, from.row, {ordered_, 0}, 0, depth};
  for (std::int32_t row = links.first_row; row >= 0; row = next_row_[at(row)]) {
    forest.order[at(ordered_++)] = row;
    forest.requests[at(row)].node = links.index;
  }
  forest.distinct_tokens += from.end - from.begin;
}

void ForestOrder::close(std::int32_t node, Forest& forest) const {
  ForestNode& to = forest.nodes[at(links_[at(node)].index)];
  to.requests.end = ordered_;
  to.last = opened_;
}

void ForestOrder::emit(std::span<const LooseNode> nodes, std::span<const std::int32_t> end_node, Forest& forest) {
  link(nodes, end_node);
  forest.nodes.reserve(2 * end_node.size());
  forest.nodes.resize(linked_);
  forest.order.resize(end_node.size());
  forest.distinct_tokens = 0;
  opened_ = 0;
  ordered_ = 0;
  std::int32_t node = first_root_;
  while (node >= 0) {
    open(nodes, node, forest);
    std::int32_t next = links_[at(node)].first_child;
    // Without recursion: a forest may be as deep as it has requests.
    while (next < 0 && node >= 0) {
      close(node, forest);
      next = links_[at(node)].next_sibling;
      node = nodes[at(node)].parent;
    }
    node = next;
  }
  for (std::size_t row = 0; row < end_node.size(); ++row) {
    if (end_node[row] < 0) {
      forest.order[at(ordered_++)] = static_cast<std::int32_t>(row);
      forest.requests[row].node = -1;
    }
  }
}

}  // namespace trunkline
