#include "replay/decoding_tree_file.hpp"

#include "base/json_lines.hpp"

namespace trunkline::replay {
namespace {

using Json = nlohmann::json;

// Iterations this far apart cannot overflow a difference of two.
constexpr std::int64_t kFarIteration = 1 << 30;

void read_node(const Json& node, std::size_t index, const LinePlace& place, DecodingTree& tree) {
  const auto named = [&](std::size_t part) { return concat("nodes[", index, "][", part, "]"); };
  if (!node.is_array() || node.size() != 5) {
    fail_at(place, "nodes[", index, "] is ", shown(node),
            "; [id, parent or -1, tokens, first iteration, last iteration] is needed");
  }
  const auto own = static_cast<std::int64_t>(index);
  const auto value = [&](std::size_t part, std::int64_t low, std::int64_t high, const char* meaning) {
    return integer_in(
        node[part], low, high, place, [&] { return named(part); }, meaning);
  };
  value(0, own, own, "ids must count from 0");
  tree.parent.push_back(value(1, -1, own - 1, "a parent must be -1 or the id of an earlier node"));
  const std::int32_t tokens = value(2, 0, kFarIteration, "tokens must be an integer from 0 to 2^30");
  const char* iteration = "an iteration must be an integer from -2^30 to 2^30";
  tree.first.push_back(value(3, -kFarIteration, kFarIteration, iteration));
  tree.last.push_back(value(4, -kFarIteration, kFarIteration, iteration));
  const std::int64_t decoded = std::int64_t{tree.last.back()} - tree.first.back() + 1;
  if (decoded != tokens) {
    fail_at(place, named(2), " is ", tokens, "; iterations ", tree.first.back(), " to ", tree.last.back(), " decode ",
            decoded);
  }
}

DecodingTree read_tree(std::string_view line, const LinePlace& place) {
  const Json object = parse_object(line, place);
  const Json& nodes = array_field(object, "nodes", place);
  DecodingTree tree;
  tree.name = concat(place.name, ":", place.line);
  for (std::size_t i = 0; i < nodes.size(); ++i) read_node(nodes[i], i, place, tree);
  try {
    check_decoding_tree(tree);
  } catch (const Error& error) {
    fail_at(place, error.what());
  }
  return tree;
}

}  // namespace

std::vector<DecodingTree> parse_decoding_trees(std::string_view text, const std::string& name, std::size_t limit) {
  return parse_lines(text, name, limit, "tree", read_tree);
}

std::vector<DecodingTree> load_decoding_trees(const std::string& path, std::size_t limit) {
  return parse_decoding_trees(read_text_file(path), path, limit);
}

}  // namespace trunkline::replay
