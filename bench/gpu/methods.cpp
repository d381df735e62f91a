#include "gpu/methods.hpp"

#include <memory>
#include <set>

#include "base/check.hpp"
#include "cli/policies.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::gpu_bench {
namespace {

template <class Change>
Method varied(const Method& method, const char* name, Change change) {
  Method result = method;
  result.name = name;
  change(result);
  return result;
}

void study(Method& method, const experimental::PolicyStudy& study) {
  method.plan.policies.study = std::make_shared<experimental::PolicyStudy>(study);
}

Method with_policy(const char* name, Policy policy) {
  return varied({}, name, [&](Method& method) { method.plan.policy = policy; });
}

Method profit_by_compute_cost() {
  return varied(with_policy("", Policy::kProfit), "profit, compute cost",
                [](Method& method) { study(method, {.profit_cost = experimental::ProfitCost::kCompute}); });
}

// PAT's multi-tile kernel has 64 x 128 as its fixed tile; 64 x 64 is the nearest that is compiled here.
constexpr TileShape kFixedTile{64, 64};

// PAT's ablations (sections 8.1 and 8.5) change one part of PAT each; beside them, the same parts of ours.
std::vector<Method> pat_ablation() {
  const Method ours;
  const Method pat = varied({}, "PAT", [](Method& method) {
    method.plan.policy = Policy::kProfit;
    method.plan.split = experimental::kSplitMean;
    method.launch.forward = experimental::ForwardMode::kStreams;
    method.launch.merge = MergeMode::kSeparate;
  });
  return {
      ours,
      varied(ours, "serial", [](Method& method) { method.launch.forward = experimental::ForwardMode::kSerial; }),
      varied(ours, "streams", [](Method& method) { method.launch.forward = experimental::ForwardMode::kStreams; }),
      varied(ours, "fixed tile", [](Method& method) { method.plan.tile = kFixedTile; }),
      with_policy("profit", Policy::kProfit),
      profit_by_compute_cost(),
      with_policy("node", Policy::kNode),
      with_policy("flat", Policy::kFlat),
      pat,
      varied(pat, "PAT-serial", [](Method& method) { method.launch.forward = experimental::ForwardMode::kSerial; }),
      varied(pat, "PAT-fixed", [](Method& method) { method.plan.tile = kFixedTile; }),
      varied(pat, "PAT-compute",
             [](Method& method) { study(method, {.profit_cost = experimental::ProfitCost::kCompute}); }),
      varied(pat, "PAT-naive", [](Method& method) { method.plan.policy = Policy::kNode; }),
  };
}

std::vector<Method> fasttree_ablation() {
  const Method greedy = varied({}, "FastTree", [](Method& method) {
    method.plan.policy = Policy::kGreedy;
    method.launch.merge = MergeMode::kSeparate;
  });
  const auto no_split = [](Method& method) { method.plan.split = KvSplit::kNone; };
  const auto no_phases = [](Method& method) { study(method, {.greedy_phases = false}); };
  return {{},
          greedy,
          varied(greedy, "FastTree, no split", no_split),
          varied(greedy, "FastTree, no phases", no_phases),
          varied(varied(greedy, "", no_split), "FastTree, no split, no phases", no_phases)};
}

std::vector<Method> packs() {
  return {{}, with_policy("profit", Policy::kProfit), profit_by_compute_cost(), with_policy("node", Policy::kNode)};
}

std::vector<Method> merges() {
  return {varied({}, "separate", [](Method& method) { method.launch.merge = MergeMode::kSeparate; }),
          varied({}, "fused", [](Method& method) { method.launch.merge = MergeMode::kFused; })};
}

std::vector<Method> against_flat() {
  return {{}, with_policy("flat", Policy::kFlat)};
}

std::vector<Method> every_policy(const std::vector<TileShape>& tiles) {
  std::vector<Method> methods{with_policy("auto", Policy::kAuto)};
  for (const Policy policy : cli::packing_policies()) methods.push_back(with_policy(name_of(policy), policy));
  std::set<std::int32_t> heights;
  for (const TileShape tile : tiles) heights.insert(tile.m);
  for (const std::int32_t rows : heights) {
    methods.push_back(varied(with_policy("", Policy::kTrunk), concat("trunk, ", rows, " rows").c_str(),
                             [&](Method& method) { method.plan.policies.trunk_rows = rows; }));
  }
  return methods;
}

std::vector<Method> each_tile(const std::vector<TileShape>& tiles) {
  std::vector<Method> methods;
  for (const TileShape tile : tiles) {
    methods.push_back(varied(with_policy("", Policy::kFlat), name_of(tile).c_str(), [&](Method& method) {
      method.plan.split = KvSplit::kNone;
      method.plan.tile = tile;
    }));
  }
  return methods;
}

}  // namespace

std::vector<Method> methods_of(MethodSet set, const Method& given, const std::vector<TileShape>& tiles) {
  switch (set) {
    case MethodSet::kGiven: return {given};
    case MethodSet::kPatAblation: return pat_ablation();
    case MethodSet::kFastTreeAblation: return fasttree_ablation();
    case MethodSet::kPacks: return packs();
    case MethodSet::kMerges: return merges();
    case MethodSet::kAgainstFlat: return against_flat();
    case MethodSet::kPolicies: return every_policy(tiles);
    case MethodSet::kEachTile: return each_tile(tiles);
  }
  return {};
}

std::string name_of(TileShape tile) {
  return tile == TileShape{} ? "auto" : concat(tile.m, "x", tile.n);
}

}  // namespace trunkline::gpu_bench
