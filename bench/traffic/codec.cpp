// CoDec (FlashForge) on the shapes of its released benchmark: bytes against FlashDecoding's.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "codec_shapes.hpp"
#include "synthetic/prefix_tree.hpp"
#include "traffic/row.hpp"

namespace trunkline::traffic {
namespace {

constexpr AttentionShape kShape = AttentionShape::uniform(32, 8, 128, 1, DType::kF16, Device::kCuda);

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
    for (const CodecShape& shape : trunkline::codec_shapes()) {
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
