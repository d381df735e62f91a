#include "replay/replay_totals.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trunkline::replay {
namespace {

void add_price(const PolicyPrice& price, PolicyPrice& sum) {
  sum.policy = price.policy;
  sum.predicted_us += price.predicted_us;
  sum.kv_bytes += price.kv_bytes;
  sum.partial_bytes += price.partial_bytes;
}

}  // namespace

Spread spread_of(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto rank = [&](double share) {
    const auto place = static_cast<std::size_t>(std::ceil(share * static_cast<double>(samples.size())));
    return samples[std::max<std::size_t>(place, 1) - 1];
  };
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {sum / static_cast<double>(samples.size()), rank(0.5), rank(0.99), samples.back()};
}

void ReplayTotals::add(const StepRecord& step) {
  ++steps;
  ++by_source[static_cast<std::size_t>(step.source)];
  requests += step.requests;
  kv_tokens_total += step.kv_tokens_total;
  kv_tokens_distinct += step.kv_tokens_distinct;
  most_sharing = std::max(most_sharing, step.sharing());
  events += step.work.events;
  add_price(step.price, price);
  prices.resize(step.prices.size());
  for (std::size_t i = 0; i < prices.size(); ++i) add_price(step.prices[i], prices[i]);
  if (step.source == PlanSource::kEdited || step.source == PlanSource::kFlat) ++late;
  exposed_us.push_back(step.exposed_us);
  if (step.hidden_us > 0) hidden_us.push_back(step.hidden_us);
  if (step.source != PlanSource::kReused) replanned_us.push_back(step.exposed_us);
  sharing.push_back(step.sharing());
}

double ReplayTotals::kept_share() const {
  return steps == 0 ? 0 : static_cast<double>(of(PlanSource::kReused)) / static_cast<double>(steps);
}

double ReplayTotals::sharing_of_all() const {
  return kv_tokens_distinct == 0 ? 1 : static_cast<double>(kv_tokens_total) / static_cast<double>(kv_tokens_distinct);
}

}  // namespace trunkline::replay
