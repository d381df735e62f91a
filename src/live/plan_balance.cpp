#include "live/plan_balance.hpp"

#include <algorithm>
#include <cstddef>

namespace trunkline {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

void PlanBalance::expect(const Forest& forest, std::span<const std::int32_t> lengths) {
  planned_.assign(lengths.begin(), lengths.end());
  std::int64_t shared = 0;
  for (const ForestNode& node : forest.nodes) shared += node.tokens() * std::int64_t{node.requests.size() > 1};
  shared_tokens_ = shared;
}

/// An item's load, and its tails.
inline TaskLoad PlanBalance::load_item(const Plan& plan, std::int32_t index) {
  const WorkItem& item = plan.items[at(index)];
  TaskLoad load;
  std::int64_t max_per_token = 0;
  for (std::int32_t i = item.spans.begin; i < item.spans.end; ++i) {
    const KvSpan& span = plan.spans[at(i)];
    const std::int64_t tokens = span.at(planned_[at(span.slot)]).size();
    const bool both = (span.flags & kSpanBothHalves) != 0;
    load.tokens += tokens;
    load.matrix_tokens += both ? 2 * tokens : tokens;
    const bool stretches = (span.flags & (kSpanBeginFromEnd | kSpanEndFromEnd)) == kSpanEndFromEnd;
    if (!stretches) continue;
    tails_.push_back({index, span.slot, planned_[at(span.slot)], both});
    max_per_token += both ? 2 : 1;
  }
  load.queries = item.queries.size();
  load.rows = costs_.tasks().rows(load.queries, item.tile.m, item.first_half > 0);
  if (item.first_half > 0 && item.first_half < load.queries)
    load.changes = costs_.tasks().half_changes(load.tokens, load.matrix_tokens, load.queries);
  for (std::int32_t i = item.queries.begin; i < item.queries.end; ++i) {
    load.merged += plan.item_outputs[at(i)] != kDirect ? 1 : 0;
  }
  const TaskCosts& costs = costs_.tasks();
  token_cost_ = std::max(token_cost_, max_per_token * (costs.memory_per_token + costs.compute_per_row * load.rows));
  return load;
}

void PlanBalance::read(const Plan& plan) {
  costs_.reset(*profile_, plan.shape, static_cast<std::int64_t>(plan.queries.size()), shared_tokens_);
  distinct_tokens_ = plan.statistics.kv_tokens_distinct;
  read_tokens_ = plan.statistics.kv_tokens_read;
  loads_.resize(plan.items.size());
  live_.reserve(plan.items.size());
  tails_.clear();
  tails_.reserve(plan.queries.size());
  token_cost_ = 0;
  for (std::size_t i = 0; i < loads_.size(); ++i) loads_[i] = load_item(plan, static_cast<std::int32_t>(i));
  reference_ = 0;
  harmless_ = 0;
}

bool PlanBalance::outgrown(std::span<const std::int32_t> lengths, double limit) {
  std::int32_t growth = 0;
  for (const Tail& tail : tails_) growth = std::max(growth, lengths[at(tail.slot)] - tail.planned);
  if (growth <= harmless_) return false;
  weigh(lengths);
  const double ratio = static_cast<double>(longest_) / static_cast<double>(mean_);
  // The first time little has grown, so that is what the plan was like.
  if (reference_ == 0) reference_ = std::max(ratio, 1.0);
  if (ratio > limit * reference_) return true;
  harmless_ = growth + harmless_growth(limit);
  return false;
}

void PlanBalance::weigh(std::span<const std::int32_t> lengths) {
  live_ = loads_;
  std::int64_t grown = 0;
  for (const Tail& tail : tails_) {
    const std::int64_t growth = lengths[at(tail.slot)] - tail.planned;
    TaskLoad& load = live_[at(tail.item)];
    load.tokens += growth;
    load.matrix_tokens += tail.both_halves ? 2 * growth : growth;
    grown += growth;
  }
  costs_.set_rereads(distinct_tokens_ + grown, read_tokens_ + grown);
  classes_.clear();
  for (const TaskLoad& load : live_) classes_.add(load.uncut_cost(costs_.tasks()));
  const Nanoseconds memory = costs_.tasks().memory_time;
  longest_ = std::max({classes_.bound(costs_.workers(), costs_.kv_heads()), memory, Nanoseconds{1}});
  mean_ = std::max({classes_.ideal(costs_.workers(), costs_.kv_heads()), memory, Nanoseconds{1}});
}

/// However requests grow, some worker has at most so many rounds of tasks, of which none grows by more than all
/// requests of an item cost it; and the mean does not fall.
std::int32_t PlanBalance::harmless_growth(double limit) const {
  const double slack = limit * reference_ * static_cast<double>(mean_) - static_cast<double>(longest_);
  const double tasks = static_cast<double>(loads_.size()) * costs_.kv_heads();
  const double rounds = tasks / costs_.workers() + 1;
  const double per_token = static_cast<double>(token_cost_) / static_cast<double>(1 << TaskCosts::kFractionBits);
  const double tokens = slack / (rounds * std::max(per_token, 1e-3));
  return static_cast<std::int32_t>(std::clamp(tokens, 0.0, 1e6));
}

}  // namespace trunkline
