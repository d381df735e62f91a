// From nodes in any order to a Forest in pre-order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trunkline/forest.hpp"

namespace trunkline {

/// A node before ordering.
struct LooseNode {
  std::int32_t parent = -1;  ///< any index; -1 for a root
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t row = 0;  ///< the first of its members
};

/// Lays nodes out as Forest documents, keeping its memory between calls.
class ForestOrder {
 public:
  /// Fills forest.nodes, forest.order, forest.requests[].node and forest.distinct_tokens.
  /// \param nodes the nodes of a forest
  /// \param end_node [B] the node that each row ends in; -1 for an empty row
  /// \param forest has forest.requests of size B
  void emit(std::span<const LooseNode> nodes, std::span<const std::int32_t> end_node, Forest& forest);

 private:
  struct Links {
    std::int32_t first_child = -1;
    std::int32_t next_sibling = -1;
    std::int32_t first_row = -1;  // of the rows that end in the node
    std::int32_t index = -1;      // in Forest::nodes
  };

  void link(std::span<const LooseNode> nodes, std::span<const std::int32_t> end_node);
  void open(std::span<const LooseNode> nodes, std::int32_t node, Forest& forest);
  void close(std::int32_t node, Forest& forest) const;

  std::vector<Links> links_;            // beside the given nodes
  std::vector<std::int32_t> next_row_;  // [B] the next row that ends in the same node
  std::int32_t first_root_ = -1;
  std::size_t linked_ = 0;    // nodes that rows end in or below
  std::int32_t opened_ = 0;   // of these, laid out so far
  std::int32_t ordered_ = 0;  // rows laid out so far
};

}  // namespace trunkline
