// The time that a policy's plan would take, from counts of the forest, without making its packs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/inline.hpp"
#include "plan/cost_classes.hpp"
#include "plan/cut_choice.hpp"
#include "plan/load.hpp"
#include "plan/policies/policy_input.hpp"

namespace trunkline {

/// Memory that outlives an estimate.
struct EstimateScratch {
  std::vector<TaskLoad> loads;
  CostClasses classes;
  std::vector<Nanoseconds> worker_loads;
};

/// The estimate that `auto` compares for one candidate policy.
struct Estimate {
  Nanoseconds time = 0;          ///< launch, and all tasks on all workers, by CutChoice's bound
  std::int64_t tokens_read = 0;  ///< as PlanStatistics::kv_tokens_read
  std::int64_t entries = 0;      ///< of Plan::item_queries, before cuts
};

/// Collects the loads of a policy's packs.
class EstimateLoads {
 public:
  EstimateLoads(const PolicyInput& input, EstimateScratch& scratch) : input_(input), scratch_(scratch) {
    scratch_.loads.clear();
    scratch_.loads.reserve(input.forest.nodes.size());
  }

  /// A pack, spread as evenly as queries allow if it is wider than an item.
  /// \param merged its queries that other packs hold too
  void add(std::int64_t tokens, std::int32_t queries, std::int32_t merged) {
    estimate_.entries += queries;
    if (queries > max_queries_) return spread(tokens, queries, merged);
    estimate_.tokens_read += tokens;
    add_item(tokens, queries, merged);
  }
  void add(const TaskLoad& load) {
    scratch_.loads.push_back(load);
    estimate_.tokens_read += load.tokens;
    estimate_.entries += load.queries;
  }

  /// \param few_partials PolicyInfo's
  Estimate finish(bool few_partials = false);

 private:
  Nanoseconds placed_time(const TaskCosts& costs) const;
  TRUNKLINE_NOINLINE void spread(std::int64_t tokens, std::int32_t queries, std::int32_t merged);
  TRUNKLINE_NOINLINE void look_up(std::int32_t queries);
  void add_item(std::int64_t tokens, std::int32_t queries, std::int32_t merged) {
    if (queries != last_.queries) look_up(queries);
    scratch_.loads.push_back(last_.load(tokens, merged));
  }

  const PolicyInput& input_;
  EstimateScratch& scratch_;
  const std::int32_t max_queries_ = input_.tiles.max_queries();
  ItemRows last_;  // most items have as many queries as the one before
  Estimate estimate_;
};

/// Queries of the requests that end at a node.
inline std::int32_t ending_queries(const PolicyInput& input, std::int32_t node) {
  return input.order.positions(input.forest.ending_at(node)).size();
}

}  // namespace trunkline
