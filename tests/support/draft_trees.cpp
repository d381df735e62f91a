#include "support/draft_trees.hpp"

#include <nlohmann/json.hpp>

#include "base/text_file.hpp"
#include "cli/draft_file.hpp"

namespace trunkline::testing {

const std::vector<DraftTree>& published_draft_trees() {
  static const std::vector<DraftTree> trees = [] {
    std::vector<DraftTree> all;
    for (const char* file : {"/topologies.json", "/deft_topologies.json"}) {
      const std::string path = std::string(TRUNKLINE_DRAFT_TREES) + file;
      const std::string text = read_text_file(path);
      const nlohmann::json trees_of_file = nlohmann::json::parse(text);
      for (const auto& tree : trees_of_file.items()) {
        all.push_back({tree.key(), cli::parse_draft_tree(text, path, tree.key())});
      }
    }
    return all;
  }();
  return trees;
}

}  // namespace trunkline::testing
