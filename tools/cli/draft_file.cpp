#include "cli/draft_file.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "base/check.hpp"
#include "base/strict_json.hpp"
#include "base/text_file.hpp"

namespace trunkline::cli {
namespace {

using Json = nlohmann::json;
using Path = std::vector<std::int32_t>;

constexpr int kMaxDepth = 16;  // the format nests four deep

const Json& find_tree(const Json& file_content, const std::string& file, const std::string& name) {
  if (!file_content.is_object()) {
    fail(ErrorCode::kParse, file, ": the file is ", shown(file_content), "; an object of named trees is needed");
  }
  const auto found = file_content.find(name);
  if (found == file_content.end()) {
    std::string known;
    for (const auto& item : file_content.items()) known += (known.empty() ? "" : ", ") + item.key();
    fail(ErrorCode::kParse, file, ": has no tree \"", name, "\"; it has ", known.empty() ? "none" : known);
  }
  const Json& tree = found->is_object() && found->contains("tree") ? found->at("tree") : *found;
  if (!tree.is_array()) {
    fail(ErrorCode::kParse, file, ": ", name, " is ", shown(tree), "; an array of paths of child ranks is needed");
  }
  return tree;
}

Path read_path(const Json& value, const std::string& place) {
  Path path;
  bool right = value.is_array() && !value.empty();
  for (std::size_t i = 0; right && i < value.size(); ++i) {
    right = value[i].is_number_unsigned() && value[i].get<std::uint64_t>() <= std::uint64_t{INT32_MAX};
    if (right) path.push_back(value[i].get<std::int32_t>());
  }
  if (!right) fail(ErrorCode::kParse, place, " is ", shown(value), "; one or more child ranks >= 0 are needed");
  return path;
}

}  // namespace

std::vector<std::int32_t> parse_draft_tree(std::string_view text, const std::string& file, const std::string& name) {
  const Json content = parse_strict_json(text, file, kMaxDepth);
  const Json& tree = find_tree(content, file, name);
  const auto place = [&](std::size_t i) { return concat(file, ": ", name, "[", i, "]"); };
  std::vector<std::pair<Path, std::size_t>> drafts;  // with their places in the file
  for (std::size_t i = 0; i < tree.size(); ++i) drafts.emplace_back(read_path(tree[i], place(i)), i);
  std::stable_sort(drafts.begin(), drafts.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.size(), a.first) < std::pair(b.first.size(), b.first);
  });

  std::map<Path, std::int32_t> numbers{{Path{}, 0}};
  std::vector<std::int32_t> parents{-1};
  for (const auto& [path, i] : drafts) {
    const auto parent = numbers.find(Path(path.begin(), path.end() - 1));
    if (parent == numbers.end()) {
      fail(ErrorCode::kParse, place(i), " is ", shown(tree[i]), ", and its parent is not in the tree");
    }
    if (!numbers.emplace(path, static_cast<std::int32_t>(parents.size())).second) {
      fail(ErrorCode::kParse, place(i), " is ", shown(tree[i]), ", which the tree has already");
    }
    parents.push_back(parent->second);
  }
  return parents;
}

std::vector<std::int32_t> load_draft_tree(const std::string& file_and_name) {
  const std::size_t colon = file_and_name.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == file_and_name.size()) {
    fail(ErrorCode::kInvalidArgument, "--draft is \"", file_and_name,
         "\"; a file of draft trees, a colon, and the name of one are needed");
  }
  const std::string file = file_and_name.substr(0, colon);
  return parse_draft_tree(read_text_file(file), file, file_and_name.substr(colon + 1));
}

}  // namespace trunkline::cli
