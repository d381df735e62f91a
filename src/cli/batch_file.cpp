#include "cli/batch_file.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.hpp"

namespace trunkline::cli {
namespace {

using Json = nlohmann::json;

// The format nests three deep; anything far deeper is an attack on the reader's memory, not a batch.
constexpr int kMaxDepth = 16;

struct Place {
  const std::string& name;
  std::size_t line;
};

template <class... Parts>
[[noreturn]] void fail_at(const Place& place, const Parts&... parts) {
  fail(ErrorCode::kParse, place.name, ":", place.line, ": ", parts...);
}

// A value as it stood in the file, short enough for a message.
std::string shown(const Json& value) {
  constexpr std::size_t kShown = 40;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

// The parser's message without its own idea of the line: it sees one line at a time.
std::string reason_of(const Json::exception& error) {
  std::string_view text = error.what();
  const std::size_t column = text.find("column ");
  if (column != std::string_view::npos) return "not JSON at " + std::string(text.substr(column));
  const std::size_t bracket = text.find("] ");
  return std::string(bracket == std::string_view::npos ? text : text.substr(bracket + 2));
}

Json parse_line(std::string_view line, const Place& place) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kMaxDepth) fail_at(place, "nested more than ", kMaxDepth, " deep");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      fail_at(place, "key ", shown(value), " appears twice");
    }
    return true;
  };
  try {
    return Json::parse(line.begin(), line.end(), check);
  } catch (const Json::exception& error) {
    fail_at(place, reason_of(error));
  }
}

const Json& array_field(const Json& object, const char* field, const Place& place) {
  const auto found = object.find(field);
  if (found == object.end()) fail_at(place, "field \"", field, "\" is missing");
  if (!found->is_array()) fail_at(place, "field \"", field, "\" is ", shown(*found), "; an array is needed");
  if (found->empty()) fail_at(place, "field \"", field, "\" is empty");
  return *found;
}

// An integer in [low, high]; `what` names it and `meaning` says what is accepted.
template <class What>
std::int32_t integer_in(const Json& value, std::int64_t low, std::int64_t high, const Place& place, const What& what,
                        const char* meaning) {
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  if (!value.is_number_integer() || huge || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
    fail_at(place, what(), " is ", shown(value), "; ", meaning);
  }
  return static_cast<std::int32_t>(value.get<std::int64_t>());
}

void read_nodes(const Json& nodes, const Place& place, PrefixTree& tree) {
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

void read_requests(const Json& requests, const Place& place, PrefixTree& tree) {
  const std::string meaning = concat("a node from 0 to ", tree.parent.size() - 1, " is needed");
  for (std::size_t r = 0; r < requests.size(); ++r) {
    tree.end_node.push_back(integer_in(
        requests[r], 0, static_cast<std::int64_t>(tree.parent.size()) - 1, place,
        [&] { return concat("requests[", r, "]"); }, meaning.c_str()));
  }
}

void check_all_used(const PrefixTree& tree, const Place& place) {
  std::vector<bool> used(tree.parent.size(), false);
  for (const std::int32_t node : tree.end_node) used[static_cast<std::size_t>(node)] = true;
  for (std::size_t node = used.size(); node-- > 0;) {
    if (!used[node]) fail_at(place, "nodes[", node, "] is on no request's path; every node must be");
    if (tree.parent[node] >= 0) used[static_cast<std::size_t>(tree.parent[node])] = true;
  }
}

DecodeBatch read_batch(std::string_view line, const Place& place) {
  const Json object = parse_line(line, place);
  if (!object.is_object()) fail_at(place, "the line is ", shown(object), "; an object is needed");
  DecodeBatch batch;
  const auto source = object.find("source");
  if (source != object.end()) {
    if (!source->is_string()) fail_at(place, "field \"source\" is ", shown(*source), "; a string is needed");
    batch.source = source->get<std::string>();
  }
  read_nodes(array_field(object, "nodes", place), place, batch.tree);
  read_requests(array_field(object, "requests", place), place, batch.tree);
  check_all_used(batch.tree, place);
  batch.suite = std::filesystem::path(place.name).stem().string();
  batch.label = std::to_string(place.line);
  batch.tree.name = concat(place.name, ":", place.line);
  return batch;
}

}  // namespace

std::vector<DecodeBatch> parse_decode_batches(std::string_view text, const std::string& name, std::size_t limit) {
  std::vector<DecodeBatch> batches;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    std::string_view content = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!content.empty() && content.back() == '\r') content.remove_suffix(1);
    if (content.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (batches.size() == limit) break;
    batches.push_back(read_batch(content, {name, line}));
  }
  if (batches.empty()) fail(ErrorCode::kParse, name, ": no batch in it; one JSON object a line is needed");
  return batches;
}

std::vector<DecodeBatch> load_decode_batches(const std::string& path, std::size_t limit) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(ErrorCode::kIo, path, ": is a directory; a file is needed");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::kIo, path, ": cannot be opened for reading");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) fail(ErrorCode::kIo, path, ": reading failed");
  return parse_decode_batches(text, path, limit);
}

}  // namespace trunkline::cli
