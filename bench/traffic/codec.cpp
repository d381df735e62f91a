// CoDec (FlashForge): the five families of shapes of its released benchmark, bytes against FlashDecoding's.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "kv/prefix_tree.hpp"
#include "traffic/row.hpp"

namespace trunkline::traffic {
namespace {

constexpr AttentionShape kShape{32, 8, 128, 1, DType::kF16, Device::kCuda};

struct Case {
  std::string name;
  std::string tree;  // in the papers' notation
};

// `levels` levels with `children` under each node, of `tokens` tokens a node.
std::string even_tree(int children, int levels, int tokens) {
  std::string nodes;
  std::string lengths;
  int width = 1;
  for (int level = 0; level < levels; ++level, width *= children) {
    nodes += concat(level == 0 ? "" : ",", width);
    lengths += concat(level == 0 ? "" : ",", tokens);
  }
  return nodes + "/" + lengths;
}

// benchmark/kernel.py of the release names the families and their ranges.
std::vector<Case> cases() {
  std::vector<Case> result;
  for (const int leaf : {128, 256, 512, 1024, 2048})
    result.push_back({concat("vary-seq, leaves of ", leaf), concat("1,8/4096,", leaf)});
  for (const int batch : {4, 8, 16, 32, 64})
    result.push_back({concat("vary-batch, ", batch), concat("1,", batch, "/2048,2048")});
  for (const int depth : {2, 3, 4, 5, 6})
    result.push_back({concat("vary-depth, binary, ", depth), even_tree(2, depth, 1024)});
  for (const int percent : {5, 10, 20, 40, 60, 80}) {
    const int shared = 120000 / 100 * percent;
    result.push_back({concat("vary-ratio, ", percent, " % shared"), concat("1,16/", shared, ",", 120000 - shared)});
  }
  for (const int children : {2, 3, 4, 5})
    result.push_back({concat("vary-shape, ", children, " children, depth 3"), even_tree(children, 3, 1024)});
  result.push_back({"vary-shape, chain", even_tree(1, 3, 1024)});
  return result;
}

// KV tokens without re-reads by narrow tiles, and partials.
double bytes_of(Planner& planner, const Forest& forest, Policy policy) {
  PlanOptions options;
  options.policy = policy;
  const PlanStatistics statistics = planner.plan(forest, kShape, options).statistics;
  const std::int64_t token_bytes = kShape.kv_bytes_per_token() * kShape.kv_heads;
  return static_cast<double>(statistics.kv_tokens_grouped * token_bytes + statistics.partial_bytes);
}

}  // namespace

void codec_shapes(const Setting& setting) {
  Planner planner(machine_of(setting, "a100-80gb"));
  const auto print_family = [&](const char* method, auto ratio, std::optional<double> paper) {
    std::vector<double> ratios;
    const auto print = [&](const std::string& input, double ours, std::optional<double> figure) {
      print_row(
          setting, planner.profile().name,
          {"codec shapes", input, method, "KV and partial bytes of flat over these", "x", ours, figure, {}, "plans"});
    };
    for (const Case& shape : cases()) {
      const Forest forest = build_forest(tree_from_levels(shape.tree).view());
      ratios.push_back(ratio(forest));
      print(shape.name, ratios.back(), std::nullopt);
    }
    print(concat("geometric mean of ", ratios.size()), geometric_mean(ratios), paper);
    print(concat("largest of ", ratios.size()), *std::max_element(ratios.begin(), ratios.end()), std::nullopt);
  };
  const auto token_bytes = static_cast<double>(kShape.kv_bytes_per_token() * kShape.kv_heads);
  print_family(
      "least",
      [&](const Forest& forest) {
        return bytes_of(planner, forest, Policy::kFlat) / (token_bytes * static_cast<double>(forest.distinct_tokens));
      },
      std::nullopt);
  for (const Policy policy : {Policy::kBalanced, Policy::kNode}) {
    print_family(
        name_of(policy),
        [&](const Forest& forest) {
          return bytes_of(planner, forest, Policy::kFlat) / bytes_of(planner, forest, policy);
        },
        120.9);
  }
}

}  // namespace trunkline::traffic
