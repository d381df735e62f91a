// From nodes in any order to a Forest in pre-order.
#pragma once

#include <cstddef>
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
  /// A node's part of the result, counted first, laid out then.
  struct Place {
    std::int32_t nodes = 0;  // of its subtree
    std::int32_t rows = 0;   // that end in it or below
    std::int32_t ends = 0;   // that end in it
    std::int32_t index = -1;  // in Forest::nodes
    std::int32_t depth = -1;
    std::int32_t next_node = 0;  // where in Forest::nodes its next child goes
    std::int32_t next_row = 0;   // where in Forest::order the rows of its next child go
    std::int32_t next_end = 0;   // where in Forest::order the next row goes that ends in it
  };
  /// Of a node, or of all at -1, above the roots: so that roots are no special case.
  Place& place(std::int32_t node) { return places_[static_cast<std::size_t>(node + 1)]; }

  void count(std::span<const LooseNode> nodes, std::span<const std::int32_t> end_node);
  void lay_out_nodes(std::span<const LooseNode> nodes, Forest& forest);
  void lay_out_rows(std::span<const std::int32_t> end_node, Forest& forest);

  std::vector<Place> places_;
  std::vector<std::int32_t> found_;  // nodes with members; each after all below it
};

}  // namespace trunkline
