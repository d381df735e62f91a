#include "traffic/replay.hpp"

#include <algorithm>
#include <utility>

namespace trunkline::traffic {
namespace {

// One query a request: a span has one mask at most, none for each token.
std::int64_t mask_bytes(const Plan& plan) {
  const auto masked =
      std::count_if(plan.spans.begin(), plan.spans.end(), [](const KvSpan& span) { return span.mask >= 0; });
  return static_cast<std::int64_t>(masked) * static_cast<std::int64_t>(sizeof(QueryMask)) * plan.shape.kv_heads;
}

}  // namespace

const PolicyTotals& ReplayTotals::of(Policy policy) const {
  const auto found = std::find(kPolicies.begin(), kPolicies.end(), policy);
  return by_policy[static_cast<std::size_t>(found - kPolicies.begin())];
}

ReplayCounter::ReplayCounter(MachineProfile profile, const AttentionShape& shape)
    : planner_(std::move(profile)), shape_(shape) {}

void ReplayCounter::add(const PrefixTree& step) {
  const Forest forest = build_forest(step.view());
  ++totals_.steps;
  totals_.paths += forest.total_tokens;
  totals_.distinct += forest.distinct_tokens;
  totals_.pairs += static_cast<std::int64_t>(step.end_node.size()) * forest.distinct_tokens;
  for (std::size_t i = 0; i < ReplayTotals::kPolicies.size(); ++i) {
    PlanOptions options;
    options.policy = ReplayTotals::kPolicies[i];
    options.split = KvSplit::kNone;  // cuts change no KV traffic; DeFT's methods have none but flatten's blocks
    const Plan& plan = planner_.plan(forest, shape_, options);
    PolicyTotals& totals = totals_.by_policy[i];
    totals.read += plan.statistics.kv_tokens_read;
    totals.grouped += plan.statistics.kv_tokens_grouped;
    totals.partial_bytes += plan.statistics.partial_bytes;
    totals.mask_bytes += mask_bytes(plan);
  }
}

void ReplayCounter::add(const DecodingTree& tree) {
  TreeReplay replay(tree);
  for (std::int32_t i = 1; i <= tree.iterations(); ++i) {
    const PrefixTree& step = replay.at(i);
    if (!step.end_node.empty()) add(step);
  }
}

}  // namespace trunkline::traffic
