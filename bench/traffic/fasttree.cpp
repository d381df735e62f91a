// FastTree, figure 9: its trees and group sizes, predicted for the paper's H100.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "traffic/row.hpp"
#include "tree_list.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::traffic {
namespace {

// A comparison of the figure: the predicted time of one plan over that of `greedy` with long contexts split.
struct Against {
  const char* method;
  Policy policy;
  KvSplit split;
  std::optional<double> paper_mean;
  std::optional<double> paper_max;
};
constexpr std::array kComparisons = {
    Against{"node, split long (FastTree without its greedy search)", Policy::kNode, experimental::kSplitLong, {}, 2.2},
    Against{"greedy, not split", Policy::kGreedy, KvSplit::kNone, {}, 1.9},
    Against{"node, not split", Policy::kNode, KvSplit::kNone, {}, {}},
    Against{"flat, balanced (FlashInfer)", Policy::kFlat, KvSplit::kBalance, 4.2, {}},
    Against{"cascade, balanced (CascadeAttn)", Policy::kCascade, KvSplit::kBalance, 2.1, {}},
};

double predicted_us(Planner& planner, const Forest& forest, const AttentionShape& shape, Policy policy, KvSplit split) {
  PlanOptions options;
  options.policy = policy;
  options.split = split;
  return planner.plan(forest, shape, options).statistics.predicted_us;
}

}  // namespace

void fasttree_figure(const Setting& setting) {
  Planner planner(machine_of(setting, "h100-sxm"));
  const std::vector<PrefixTree> trees = load_tree_list(setting.data + "/synthetic/fasttree_kernel_trees.json");
  std::array<std::vector<double>, kComparisons.size()> ratios;
  const auto print = [&](const std::string& input, std::size_t i, const char* quantity, double ours,
                         std::optional<double> paper) {
    print_row(setting, planner.profile().name,
              {"fasttree 9", input, kComparisons[i].method, quantity, "x", ours, paper, {}, "plans"});
  };
  for (const auto& [q_heads, kv_heads] : {std::array{32, 32}, std::array{32, 8}, std::array{16, 1}}) {
    const AttentionShape shape = AttentionShape::uniform(q_heads, kv_heads, 128, 1, DType::kF16, Device::kCuda);
    for (const PrefixTree& tree : trees) {
      const Forest forest = build_forest(tree.view());
      const double greedy = predicted_us(planner, forest, shape, Policy::kGreedy, experimental::kSplitLong);
      for (std::size_t i = 0; i < kComparisons.size(); ++i) {
        const double other = predicted_us(planner, forest, shape, kComparisons[i].policy, kComparisons[i].split);
        ratios[i].push_back(other / greedy);
        print(concat(tree.name, ", ", q_heads, "/", kv_heads), i, "predicted time over greedy's, split long",
              ratios[i].back(), std::nullopt);
      }
    }
  }
  for (std::size_t i = 0; i < kComparisons.size(); ++i) {
    const std::string all = concat("all ", ratios[i].size());
    print(all, i, "geometric mean", geometric_mean(ratios[i]), kComparisons[i].paper_mean);
    print(all, i, "largest", *std::max_element(ratios[i].begin(), ratios[i].end()), kComparisons[i].paper_max);
  }
}

}  // namespace trunkline::traffic
