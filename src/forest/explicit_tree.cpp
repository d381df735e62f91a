// The forest of a tree that is given, not found.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "forest/forest_order.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

void check_array(std::span<const std::int32_t> array, const char* name) {
  if (array.data() == nullptr && !array.empty()) {
    fail(ErrorCode::kInvalidArgument, name, " is null but has ", array.size(), " entries");
  }
  if (array.size() > static_cast<std::size_t>(kMaxInt32)) {
    fail(ErrorCode::kInvalidArgument, name, " has ", array.size(), " entries; at most ", kMaxInt32);
  }
}

void check_tree(const ExplicitTree& tree) {
  check_array(tree.parent, "parent");
  check_array(tree.tokens, "tokens");
  check_array(tree.end_node, "end_node");
  const auto nodes = static_cast<std::int32_t>(tree.parent.size());
  if (tree.tokens.size() != tree.parent.size()) {
    fail(ErrorCode::kInvalidArgument, "tokens has ", tree.tokens.size(), " entries; parent has ", nodes);
  }
  for (std::size_t i = 0; i < tree.parent.size(); ++i) {
    if (tree.parent[i] < -1 || tree.parent[i] >= nodes) {
      fail(ErrorCode::kOutOfRange, "parent[", i, "] is ", tree.parent[i], "; it must be -1 or a node in [0, ", nodes,
           ")");
    }
    if (tree.tokens[i] < 0) {
      fail(ErrorCode::kInvalidArgument, "tokens[", i, "] is ", tree.tokens[i], "; it must be >= 0");
    }
  }
  for (std::size_t row = 0; row < tree.end_node.size(); ++row) {
    if (tree.end_node[row] < -1 || tree.end_node[row] >= nodes) {
      fail(ErrorCode::kOutOfRange, "end_node[", row, "] is ", tree.end_node[row], "; it must be -1 or a node in [0, ",
           nodes, ")");
    }
  }
}

/// Node indices, children before parents. \throws Error on a cycle.
std::vector<std::int32_t> bottom_up_order(std::span<const std::int32_t> parent) {
  std::vector<std::int32_t> open_children(parent.size());
  for (const std::int32_t p : parent) {
    if (p >= 0) ++open_children[at(p)];
  }
  std::vector<std::int32_t> order;
  order.reserve(parent.size());
  const auto nodes = static_cast<std::int32_t>(parent.size());
  for (std::int32_t node = 0; node < nodes; ++node) {
    if (open_children[at(node)] == 0) order.push_back(node);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t p = parent[at(order[i])];
    if (p >= 0 && --open_children[at(p)] == 0) order.push_back(p);
  }
  // Whatever hangs below a cycle was reached from its leaves, so only nodes on a cycle still wait for a child.
  for (std::int32_t node = 0; node < nodes; ++node) {
    if (open_children[at(node)] > 0) {
      fail(ErrorCode::kInvalidArgument, "parent[", node, "] is ", parent[at(node)], "; node ", node,
           " is on a cycle, and every path of parents must end in -1");
    }
  }
  return order;
}

/// Who uses a node.
struct Members {
  std::int32_t count = 0;
  std::int32_t first = std::numeric_limits<std::int32_t>::max();
};

/// \throws Error on a node without members.
std::vector<Members> count_members(const ExplicitTree& tree, std::span<const std::int32_t> bottom_up) {
  std::vector<Members> members(tree.parent.size());
  for (std::size_t row = 0; row < tree.end_node.size(); ++row) {
    if (tree.end_node[row] < 0) continue;
    Members& end = members[at(tree.end_node[row])];
    ++end.count;
    end.first = std::min(end.first, static_cast<std::int32_t>(row));
  }
  for (const std::int32_t node : bottom_up) {
    if (tree.parent[at(node)] < 0) continue;
    Members& above = members[at(tree.parent[at(node)])];
    above.count += members[at(node)].count;
    above.first = std::min(above.first, members[at(node)].first);
  }
  for (std::size_t node = 0; node < members.size(); ++node) {
    if (members[node].count == 0) {
      fail(ErrorCode::kInvalidArgument, "node ", node, " is used by no request: no end_node is it or below it");
    }
  }
  return members;
}

/// The nodes that remain when nodes of no token and chains of the same members are folded.
struct FoldedTree {
  std::vector<LooseNode> nodes;
  /// [N] the remaining node that the path of a given node ends in; -1 for a path of no token.
  std::vector<std::int32_t> kept_as;
};

FoldedTree fold(const ExplicitTree& tree, std::span<const std::int32_t> bottom_up, std::span<const Members> members) {
  FoldedTree folded;
  folded.kept_as.resize(tree.parent.size());
  std::vector<std::int32_t> kept_members;
  for (auto i = bottom_up.rbegin(); i != bottom_up.rend(); ++i) {
    const std::int32_t node = *i;
    const std::int32_t parent = tree.parent[at(node)];
    const std::int32_t above = parent < 0 ? -1 : folded.kept_as[at(parent)];
    const std::int32_t tokens = tree.tokens[at(node)];
    const std::int32_t begin = above < 0 ? 0 : folded.nodes[at(above)].end;
    if (tokens > kMaxInt32 - begin) {
      fail(ErrorCode::kInvalidArgument, "tokens[", node, "] is ", tokens, " after ", begin, " on its path; at most ",
           kMaxInt32, " tokens a request");
    }
    if (tokens == 0) {
      folded.kept_as[at(node)] = above;
    } else if (above >= 0 && kept_members[at(above)] == members[at(node)].count) {
      folded.nodes[at(above)].end += tokens;
      folded.kept_as[at(node)] = above;
    } else {
      folded.kept_as[at(node)] = static_cast<std::int32_t>(folded.nodes.size());
      folded.nodes.push_back({above, begin, begin + tokens, members[at(node)].first});
      kept_members.push_back(members[at(node)].count);
    }
  }
  return folded;
}

}  // namespace

Forest build_forest(const ExplicitTree& tree) {
  check_tree(tree);
  const std::vector<std::int32_t> bottom_up = bottom_up_order(tree.parent);
  const std::vector<Members> members = count_members(tree, bottom_up);
  const FoldedTree folded = fold(tree, bottom_up, members);

  Forest forest;
  std::vector<std::int32_t> end_node(tree.end_node.size());
  forest.requests.resize(tree.end_node.size());
  for (std::size_t row = 0; row < end_node.size(); ++row) {
    end_node[row] = tree.end_node[row] < 0 ? -1 : folded.kept_as[at(tree.end_node[row])];
    ForestRequest& request = forest.requests[row];
    request.slot = static_cast<std::int32_t>(row);
    request.query_begin = request.slot;
    request.kv_len = end_node[row] < 0 ? 0 : folded.nodes[at(end_node[row])].end;
    forest.total_tokens += request.kv_len;
  }
  ForestOrder().emit(folded.nodes, end_node, forest);
  return forest;
}

}  // namespace trunkline
