#include "planner_cases.hpp"

#include "cli/batch_file.hpp"
#include "tree_list.hpp"

namespace trunkline {

std::vector<PlannerCase> load_planner_cases(const std::filesystem::path& data) {
  std::vector<PlannerCase> cases;
  for (const char* name : {"pat_kernel_trees", "fasttree_kernel_trees"}) {
    for (PrefixTree& tree : load_tree_list((data / "synthetic" / (std::string(name) + ".json")).string()))
      cases.push_back({name, std::move(tree)});
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(data / "decode_batches")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    for (auto& batch : cli::load_decode_batches(path.string())) cases.push_back({batch.suite, std::move(batch.tree)});
  }
  return cases;
}

nlohmann::ordered_json row_of(const std::string& suite, const PlannerCase& input, std::int32_t page_size,
                              const Forest& forest, const Plan& plan) {
  nlohmann::ordered_json row;
  row["suite"] = suite;
  row["input"] = input.suite;
  row["case"] = input.tree.name;
  row["heads"] = "32/8";
  row["dtype"] = "f16";
  row["mode"] = "host";
  row["page_size"] = page_size;
  row["policy"] = "auto";
  row["chosen"] = name_of(plan.policy);
  row["requests"] = forest.requests.size();
  row["nodes"] = forest.nodes.size();
  row["items"] = plan.items.size();
  return row;
}

}  // namespace trunkline
