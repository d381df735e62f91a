// A prefix tree as workload files and the papers describe it: nodes of tokens, and the node that each request ends in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trunkline/forest.hpp"

namespace trunkline {

struct PrefixTree {
  std::string name;                    ///< for reports: file and line, or the notation
  std::vector<std::int32_t> parent;    ///< [N] -1 for a root, otherwise smaller than the node's own index
  std::vector<std::int32_t> tokens;    ///< [N]
  std::vector<std::int32_t> end_node;  ///< [B] -1 for an empty request
  /// [B] or empty: the query tokens that each request brings on top of its path, as the parents of
  /// Batch::query_parents. A request without any has one query token, its path's last.
  std::vector<std::vector<std::int32_t>> drafts = {};

  /// Query tokens on top of a request's path.
  std::int32_t draft_tokens(std::size_t request) const {
    return drafts.empty() ? 0 : static_cast<std::int32_t>(drafts[request].size());
  }
  ExplicitTree view() const { return {parent, tokens, end_node}; }
};

/// The papers' notation: nodes per level, a slash (or underscore), tokens of each node of that level.
/// "1,8,512/32,512,256". Node j of a level of m hangs under node floor(j * p / m) of the level above, which has p;
/// requests are the last level. \throws Error(kParse) naming the part at fault.
PrefixTree tree_from_levels(std::string_view notation);

/// [N] one past each node's last token position: the tokens on the path from its root.
/// \throws Error on a parent that does not come before its node, a negative length, or a path longer than 2^31 - 1
/// tokens.
std::vector<std::int32_t> path_tokens(const PrefixTree& tree);

}  // namespace trunkline
