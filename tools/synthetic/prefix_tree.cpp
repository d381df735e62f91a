#include "synthetic/prefix_tree.hpp"

#include <charconv>
#include <limits>

#include "base/check.hpp"

namespace trunkline {
namespace {

// The papers' largest trees have about a thousand nodes; a million already needs gigabytes of page tables.
constexpr std::int32_t kMaxNodes = 1 << 20;

std::vector<std::int32_t> parse_list(std::string_view notation, std::string_view list, const char* what) {
  std::vector<std::int32_t> values;
  std::size_t at = 0;
  while (true) {
    const std::size_t comma = list.find(',', at);
    const std::string_view part = list.substr(at, comma == std::string_view::npos ? comma : comma - at);
    std::int32_t value = 0;
    const char* last = part.data() + part.size();
    const auto [end, error] = std::from_chars(part.data(), last, value);
    if (error != std::errc() || end != last || part.empty()) {
      fail(ErrorCode::kParse, "tree \"", notation, "\": ", what, "[", values.size(), "] is \"", part,
           "\"; an integer below 2^31 is needed");
    }
    values.push_back(value);
    if (comma == std::string_view::npos) return values;
    at = comma + 1;
  }
}

void check_levels(std::string_view notation, const std::vector<std::int32_t>& nodes,
                  const std::vector<std::int32_t>& tokens) {
  if (nodes.size() != tokens.size()) {
    fail(ErrorCode::kParse, "tree \"", notation, "\" has ", nodes.size(), " levels of nodes and ", tokens.size(),
         " of tokens; both sides of the slash need one number a level");
  }
  std::int64_t total = 0;
  for (std::size_t level = 0; level < nodes.size(); ++level) {
    const std::int32_t above = level == 0 ? 1 : nodes[level - 1];
    if (nodes[level] < above) {
      fail(ErrorCode::kParse, "tree \"", notation, "\": nodes[", level, "] is ", nodes[level], "; at least ", above,
           level == 0 ? " is needed" : " are needed, so that each node of the level above has a child");
    }
    if (tokens[level] < 1) {
      fail(ErrorCode::kParse, "tree \"", notation, "\": tokens[", level, "] is ", tokens[level],
           "; at least 1 is needed");
    }
    total += nodes[level];
    if (total > kMaxNodes) {
      fail(ErrorCode::kParse, "tree \"", notation, "\": nodes[", level, "] is ", nodes[level], "; at most ", kMaxNodes,
           " nodes in all are supported");
    }
  }
}

}  // namespace

PrefixTree tree_from_levels(std::string_view notation) {
  const std::size_t slash = notation.find_first_of("/_");
  if (slash == std::string_view::npos) {
    fail(ErrorCode::kParse, "tree \"", notation, "\" has no slash between nodes and tokens, as in 1,8,512/32,512,256");
  }
  const std::vector<std::int32_t> nodes = parse_list(notation, notation.substr(0, slash), "nodes");
  const std::vector<std::int32_t> tokens = parse_list(notation, notation.substr(slash + 1), "tokens");
  check_levels(notation, nodes, tokens);

  PrefixTree tree;
  tree.name = notation;
  std::int32_t above_begin = 0;
  for (std::size_t level = 0; level < nodes.size(); ++level) {
    const auto level_begin = static_cast<std::int32_t>(tree.parent.size());
    for (std::int32_t j = 0; j < nodes[level]; ++j) {
      const std::int64_t above = level == 0 ? -1 : above_begin + std::int64_t{j} * nodes[level - 1] / nodes[level];
      tree.parent.push_back(static_cast<std::int32_t>(above));
      tree.tokens.push_back(tokens[level]);
      if (level + 1 == nodes.size()) tree.end_node.push_back(level_begin + j);
    }
    above_begin = level_begin;
  }
  path_tokens(tree);  // refuses paths that are too long
  return tree;
}

std::vector<std::int32_t> path_tokens(const PrefixTree& tree) {
  std::vector<std::int32_t> ends(tree.parent.size());
  for (std::size_t node = 0; node < ends.size(); ++node) {
    const std::int32_t parent = tree.parent[node];
    if (parent < -1 || parent >= static_cast<std::int32_t>(node)) {
      fail(ErrorCode::kInvalidArgument, "parent[", node, "] is ", parent, "; it must be -1 or come before its node");
    }
    if (tree.tokens[node] < 0) {
      fail(ErrorCode::kInvalidArgument, "tokens[", node, "] is ", tree.tokens[node], "; lengths must be >= 0");
    }
    const std::int64_t begin = parent < 0 ? 0 : ends[static_cast<std::size_t>(parent)];
    const std::int64_t end = begin + tree.tokens[node];
    if (end > std::numeric_limits<std::int32_t>::max()) {
      fail(ErrorCode::kInvalidArgument, "tokens[", node, "] is ", tree.tokens[node], ", which makes a path of ", end,
           " tokens; at most 2^31 - 1 are supported");
    }
    ends[node] = static_cast<std::int32_t>(end);
  }
  return ends;
}

}  // namespace trunkline
