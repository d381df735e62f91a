#include "tree_list.hpp"

#include <nlohmann/json.hpp>

#include "base/text_file.hpp"

namespace trunkline {
namespace {

// "1,8,512/32,512,256" from {"nodes": [1, 8, 512], "lens": [32, 512, 256]}.
std::string notation_of(const nlohmann::json& tree) {
  const auto joined = [](const nlohmann::json& numbers) {
    std::string text;
    for (const auto& number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number.get<std::int32_t>());
    return text;
  };
  return joined(tree.at("nodes")) + "/" + joined(tree.at("lens"));
}

}  // namespace

std::vector<PrefixTree> load_tree_list(const std::string& path) {
  const nlohmann::json listed = nlohmann::json::parse(read_text_file(path));
  std::vector<PrefixTree> trees;
  for (const auto& tree : listed.at("trees")) trees.push_back(tree_from_levels(notation_of(tree)));
  return trees;
}

}  // namespace trunkline
