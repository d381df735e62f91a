// What policies would cost, from counts of the forest, without making their packs.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/cost_classes.hpp"
#include "plan/cut_choice.hpp"
#include "plan/policies/policy_table.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Memory that outlives an estimate.
struct EstimateScratch {
  std::vector<TaskLoad> loads;
  CostClasses classes;
  std::vector<Nanoseconds> worker_loads;
};

/// What `auto` knows of one candidate.
struct Estimate {
  Nanoseconds time = 0;          ///< launch, and all tasks on all workers, by CutChoice's bound
  std::int64_t tokens_read = 0;  ///< as PlanStatistics::kv_tokens_read
  std::int64_t entries = 0;      ///< of Plan::item_queries, before cuts
};

/// \param policy flat, node, profit or trunk. In time linear in nodes and requests.
Estimate estimate_policy(Policy policy, const PolicyInput& input, EstimateScratch& scratch);

/// No estimate of the policy has less time than this.
Nanoseconds least_time_of(Policy policy, const PolicyInput& input);

/// The policies among which `auto` chooses on a device; ties go to `flat`, then to the earlier. `trunk` is one on GPUs
/// alone: on CPUs, whose kernels compute masked rows too, it was at best 5 % faster than `node` or `profit`, and up to
/// 1.7 times as slow (bench/results/cpu/policies.jsonl). The others are left out to keep planning short: they group
/// much as one of these does, with other weights or more partials.
std::span<const Policy> auto_candidates(Device device);

}  // namespace trunkline
