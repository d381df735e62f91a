#include "synthetic/decoding_tree.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace trunkline {
namespace {

constexpr std::int32_t kUnused = -2;
constexpr std::int32_t kNeeded = -1;

std::size_t index_of(std::int32_t node) {
  return static_cast<std::size_t>(node);
}

}  // namespace

std::int32_t DecodingTree::iterations() const {
  return last.empty() ? 0 : std::max(0, *std::max_element(last.begin(), last.end()));
}

void check_decoding_tree(const DecodingTree& tree) {
  if (tree.first.size() != tree.parent.size() || tree.last.size() != tree.parent.size()) {
    fail(ErrorCode::kInvalidArgument, "first has ", tree.first.size(), " nodes, last ", tree.last.size(), ", parent ",
         tree.parent.size(), "; all need one value a node");
  }
  std::vector<std::int64_t> path(tree.parent.size());
  for (std::int32_t node = 0; node < tree.size(); ++node) {
    const std::int32_t parent = tree.parent[index_of(node)];
    const std::int32_t first = tree.first[index_of(node)];
    if (parent < -1 || parent >= node) {
      fail(ErrorCode::kInvalidArgument, "parent of node ", node, " is ", parent, "; it must be -1 or an earlier node");
    }
    if (std::int64_t{tree.last[index_of(node)]} < std::int64_t{first} - 1) {
      fail(ErrorCode::kInvalidArgument, "last iteration of node ", node, " is ", tree.last[index_of(node)],
           "; it must be at least its first, ", first, ", less 1");
    }
    if (parent >= 0 && first <= tree.last[index_of(parent)]) {
      fail(ErrorCode::kInvalidArgument, "first iteration of node ", node, " is ", first,
           "; it must come after its parent's last, ", tree.last[index_of(parent)]);
    }
    path[index_of(node)] =
        std::int64_t{tree.last[index_of(node)]} - first + 1 + (parent < 0 ? 0 : path[index_of(parent)]);
    if (path[index_of(node)] > std::numeric_limits<std::int32_t>::max()) {
      fail(ErrorCode::kInvalidArgument, "node ", node, " ends a path of ", path[index_of(node)],
           " tokens; at most 2^31 - 1 are supported");
    }
  }
}

DecodingTree few_shot_tree(std::int32_t prompt, std::int32_t branches, std::int32_t iterations) {
  if (prompt < 1 || branches < 1 || iterations < 1) {
    fail(ErrorCode::kInvalidArgument, "prompt is ", prompt, ", branches ", branches, ", iterations ", iterations,
         "; all must be >= 1");
  }
  DecodingTree tree;
  tree.name = concat("prompt ", prompt, ", ", branches, " branches");
  tree.parent.assign(index_of(branches) + 1, 0);
  tree.first.assign(index_of(branches) + 1, 1);
  tree.last.assign(index_of(branches) + 1, iterations);
  tree.parent[0] = -1;
  tree.first[0] = 1 - prompt;
  tree.last[0] = 0;
  return tree;
}

TreeReplay::TreeReplay(const DecodingTree& tree) : tree_(&tree), place_(tree.parent.size()) {
  check_decoding_tree(tree);
  step_.name = tree.name;
}

void TreeReplay::mark_needed(std::int32_t iteration) {
  std::fill(place_.begin(), place_.end(), kUnused);
  for (std::int32_t node = tree_->size(); node-- > 0;) {
    if (tree_->first[index_of(node)] <= iteration && iteration <= tree_->last[index_of(node)])
      place_[index_of(node)] = kNeeded;
    const std::int32_t parent = tree_->parent[index_of(node)];
    if (place_[index_of(node)] == kNeeded && parent >= 0) place_[index_of(parent)] = kNeeded;
  }
}

const PrefixTree& TreeReplay::at(std::int32_t iteration) {
  if (iteration < 1) fail(ErrorCode::kInvalidArgument, "iteration is ", iteration, "; decoding begins with 1");
  mark_needed(iteration);
  step_.parent.clear();
  step_.tokens.clear();
  step_.end_node.clear();
  for (std::int32_t node = 0; node < tree_->size(); ++node) {
    const std::size_t index = index_of(node);
    if (place_[index] == kUnused) continue;
    place_[index] = static_cast<std::int32_t>(step_.parent.size());
    const std::int32_t parent = tree_->parent[index];
    step_.parent.push_back(parent < 0 ? -1 : place_[index_of(parent)]);
    step_.tokens.push_back(std::min(iteration, tree_->last[index]) - tree_->first[index] + 1);
    if (tree_->last[index] >= iteration) step_.end_node.push_back(place_[index]);
  }
  return step_;
}

PrefixTree token_tree(std::int32_t past, std::span<const std::int32_t> parent) {
  PrefixTree tree;
  tree.name = concat("draft of ", parent.size(), " tokens over ", past);
  tree.parent.push_back(-1);
  tree.tokens.push_back(past);
  for (std::size_t token = 0; token < parent.size(); ++token) {
    const bool root = parent[token] == -1;
    if (root != (token == 0) || parent[token] < -1 || parent[token] >= static_cast<std::int32_t>(token)) {
      fail(ErrorCode::kInvalidArgument, "parent[", token, "] is ", parent[token],
           token == 0 ? "; the first token is the root, with -1" : "; it must be an earlier token");
    }
    tree.parent.push_back(parent[token] + 1);
    tree.tokens.push_back(1);
    tree.end_node.push_back(static_cast<std::int32_t>(token) + 1);
  }
  path_tokens(tree);  // refuses paths that are too long
  return tree;
}

}  // namespace trunkline
