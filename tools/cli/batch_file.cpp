#include "cli/batch_file.hpp"

#include <cstdint>
#include <filesystem>

#include "base/json_lines.hpp"

namespace trunkline::cli {
namespace {

using Json = nlohmann::json;

void read_nodes(const Json& nodes, const LinePlace& place, PrefixTree& tree) {
  std::vector<std::int64_t> path_end;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto named = [&](const char* part) { return concat("nodes[", i, "]", part); };
    if (!nodes[i].is_array() || nodes[i].size() != 2) {
      fail_at(place, named(""), " is ", shown(nodes[i]), "; [parent or -1, tokens] is needed");
    }
    const std::int32_t parent = integer_in(
        nodes[i][0], -1, static_cast<std::int64_t>(i) - 1, place, [&] { return named("[0]"); },
        "a parent must be -1 or the index of an earlier node");
    const std::int32_t tokens = integer_in(
        nodes[i][1], 0, INT32_MAX, place, [&] { return named("[1]"); }, "tokens must be an integer from 0 to 2^31 - 1");
    path_end.push_back((parent < 0 ? 0 : path_end[static_cast<std::size_t>(parent)]) + tokens);
    if (path_end.back() > INT32_MAX) {
      fail_at(place, named("[1]"), " is ", tokens, ", which makes a path of ", path_end.back(),
              " tokens; at most 2^31 - 1 are supported");
    }
    tree.parent.push_back(parent);
    tree.tokens.push_back(tokens);
  }
}

void read_requests(const Json& requests, const LinePlace& place, PrefixTree& tree) {
  const std::string meaning = concat("a node from 0 to ", tree.parent.size() - 1, " is needed");
  for (std::size_t r = 0; r < requests.size(); ++r) {
    tree.end_node.push_back(integer_in(
        requests[r], 0, static_cast<std::int64_t>(tree.parent.size()) - 1, place,
        [&] { return concat("requests[", r, "]"); }, meaning.c_str()));
  }
}

[[noreturn]] void refuse_parent(const LinePlace& place, std::size_t r, std::size_t i, std::int32_t parent) {
  if (i == 0) {
    fail_at(place, "drafts[", r, "][0] is ", parent, "; the first draft is the root of its tree, whose parent is -1");
  }
  const auto index = static_cast<std::int32_t>(i);
  fail_at(place, "drafts[", r, "][", i, "] is ", parent, ", ",
          parent < 0        ? "a root too many"
          : parent == index ? "a cycle"
                            : "a forward parent",
          "; each draft but the first needs the index of an earlier one");
}

std::vector<std::int32_t> read_draft_tree(const Json& parents, std::size_t r, const LinePlace& place) {
  if (!parents.is_array()) {
    fail_at(place, "drafts[", r, "] is ", shown(parents), "; an array of parents is needed, empty for no drafts");
  }
  std::vector<std::int32_t> tree;
  for (std::size_t i = 0; i < parents.size(); ++i) {
    tree.push_back(integer_in(
        parents[i], -1, INT32_MAX, place, [&] { return concat("drafts[", r, "][", i, "]"); },
        "a parent must be -1 or the index of an earlier draft"));
    const bool right = i == 0 ? tree[i] == -1 : tree[i] >= 0 && tree[i] < static_cast<std::int32_t>(i);
    if (!right) refuse_parent(place, r, i, tree[i]);
  }
  return tree;
}

void read_drafts(const Json& drafts, const LinePlace& place, PrefixTree& tree) {
  if (!drafts.is_array()) fail_at(place, "field \"drafts\" is ", shown(drafts), "; an array is needed");
  if (drafts.size() != tree.end_node.size()) {
    fail_at(place, "field \"drafts\" has ", drafts.size(), " entries; one for each of the ", tree.end_node.size(),
            " requests is needed");
  }
  const std::vector<std::int32_t> path_ends = path_tokens(tree);
  for (std::size_t r = 0; r < drafts.size(); ++r) {
    tree.drafts.push_back(read_draft_tree(drafts[r], r, place));
    const std::int64_t length =
        std::int64_t{path_ends[static_cast<std::size_t>(tree.end_node[r])]} + tree.draft_tokens(r);
    if (length > INT32_MAX) {
      fail_at(place, "drafts[", r, "] has ", tree.drafts[r].size(), " drafts, which make a request of ", length,
              " tokens; at most 2^31 - 1 are supported");
    }
  }
}

void check_all_used(const PrefixTree& tree, const LinePlace& place) {
  std::vector<bool> used(tree.parent.size(), false);
  for (const std::int32_t node : tree.end_node) used[static_cast<std::size_t>(node)] = true;
  for (std::size_t node = used.size(); node-- > 0;) {
    if (!used[node]) fail_at(place, "nodes[", node, "] is on no request's path; every node must be");
    if (tree.parent[node] >= 0) used[static_cast<std::size_t>(tree.parent[node])] = true;
  }
}

DecodeBatch read_batch(std::string_view line, const LinePlace& place) {
  const Json object = parse_object(line, place);
  DecodeBatch batch;
  const auto source = object.find("source");
  if (source != object.end()) {
    if (!source->is_string()) fail_at(place, "field \"source\" is ", shown(*source), "; a string is needed");
    batch.source = source->get<std::string>();
  }
  read_nodes(array_field(object, "nodes", place), place, batch.tree);
  read_requests(array_field(object, "requests", place), place, batch.tree);
  check_all_used(batch.tree, place);
  if (const auto drafts = object.find("drafts"); drafts != object.end()) read_drafts(*drafts, place, batch.tree);
  batch.suite = std::filesystem::path(place.name).stem().string();
  batch.label = std::to_string(place.line);
  batch.tree.name = concat(place.name, ":", place.line);
  return batch;
}

}  // namespace

std::vector<DecodeBatch> parse_decode_batches(std::string_view text, const std::string& name, std::size_t limit) {
  return parse_lines(text, name, limit, "batch", read_batch);
}

std::vector<DecodeBatch> load_decode_batches(const std::string& path, std::size_t limit) {
  return parse_decode_batches(read_text_file(path), path, limit);
}

}  // namespace trunkline::cli
