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
  /// How much of the result is a node's, counted first; once it is laid out, where the next goes that is found in it.
  struct Place {
    std::int32_t nodes = 0;  // of its subtree; then where in Forest::nodes its next child goes
    std::int32_t rows = 0;   // that end in it or below; then where in Forest::order those of its next child go
    std::int32_t ends = 0;   // rows that end in it; then where in Forest::order the next of them goes
    std::int32_t index = 0;  // in Forest::nodes, once it is laid out
  };
  /// The place of a node; -1 is a node above all roots, so that roots are no special case.
  Place& place(std::int32_t node) { return places_[static_cast<std::size_t>(node + 1)]; }

  void count(std::span<const LooseNode> nodes, std::span<const std::int32_t> end_node);
  void lay_out_nodes(std::span<const LooseNode> nodes, Forest& forest);
  void lay_out_rows(std::span<const std::int32_t> end_node, Forest& forest);

  std::vector<Place> places_;
  std::vector<std::int32_t> found_;  // nodes with members; each after all below it
};

}  // namespace trunkline
