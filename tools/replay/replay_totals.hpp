// A replay summed up.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "replay/replay.hpp"

namespace trunkline::replay {

/// Statistics of the samples of several steps, in the unit of the samples.
struct Spread {
  double mean = 0;
  double median = 0;
  double p99 = 0;
  double most = 0;
};
/// Percentiles by nearest rank; all 0 without samples.
Spread spread_of(std::vector<double> samples);

/// Sums over decode steps.
struct ReplayTotals {
  static constexpr std::size_t kSources = 6;

  std::int64_t steps = 0;
  std::array<std::int64_t, kSources> by_source{};  ///< by PlanSource
  std::int64_t requests = 0;
  std::int64_t kv_tokens_total = 0;
  std::int64_t kv_tokens_distinct = 0;
  double most_sharing = 1;
  EventCounts events;  ///< of joins and the like
  PolicyPrice price;   ///< of the policy that planned
  std::vector<PolicyPrice> prices;
  std::int64_t late = 0;             ///< plans that were: the step ran an edited or flat one
  std::vector<double> exposed_us;    ///< of each step
  std::vector<double> hidden_us;     ///< of each step whose plan was made on the thread
  std::vector<double> replanned_us;  ///< exposed, of each step that did not keep its plan
  std::vector<double> sharing;       ///< of each step

  void add(const StepRecord& step);
  std::int64_t of(PlanSource source) const { return by_source[static_cast<std::size_t>(source)]; }
  double kept_share() const;
  /// KV tokens of all steps one request at a time, over distinct ones.
  double sharing_of_all() const;
};

}  // namespace trunkline::replay
