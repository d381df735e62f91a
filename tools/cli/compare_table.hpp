// Output of `trunkline compare`: the plans of a batch, as tables and as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cli {

/// One policy's plan.
struct ComparedPlan {
  Policy policy = Policy::kFlat;
  PlanStatistics statistics;
  std::size_t items = 0;
  double plan_us = 0;  ///< median time of planning, without the forest

  /// KV tokens read, as a multiple of the least.
  double x_distinct() const;
  /// The same without re-reads by tiles that are too narrow for a group.
  double x_grouped() const;
  /// KV and partial bytes, as a multiple of the distinct KV bytes.
  double x_traffic() const;
  double x_bound() const { return statistics.predicted_us / statistics.bound_us; }
};

struct ComparedBatch {
  std::string suite, label, source;
  std::int32_t requests = 0;
  std::vector<ComparedPlan> plans;  ///< of the policies that were asked for
  ComparedPlan picked;              ///< of `auto`; its policy is the pick

  /// The plan with the least predicted time; the first of several.
  const ComparedPlan& best() const;
  /// Predicted time of auto's pick over the best plan's; below 1 where the best policy was not asked for.
  double regret() const { return picked.statistics.predicted_us / best().statistics.predicted_us; }
};

/// Geometric means over batches.
struct CompareMeans {
  double x_distinct = 0, x_grouped = 0, x_traffic = 0, x_bound = 0, plan_us = 0;
};
CompareMeans mean_of(const std::vector<const ComparedPlan*>& plans);

void print_compared(std::ostream& out, const ComparedBatch& batch);
/// Means of each policy and of auto's picks, and auto's regret.
void print_means(std::ostream& out, const std::vector<ComparedBatch>& batches);

/// One object on one line.
std::string compared_to_json(const Options& options, const std::string& machine, const ComparedBatch& batch);
std::string means_to_json(const Options& options, const std::string& machine,
                          const std::vector<ComparedBatch>& batches);

}  // namespace trunkline::cli
