// Times of this machine's kernels, measured with the real executor on batches made for it.
#pragma once

#include "cli/measure.hpp"
#include "cli/text.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/threads.hpp"

namespace trunkline::cli {

/// Costs of a run besides reading and multiplying.
struct FixedCosts {
  double launch_us = 0;
  double item_us = 0;
  double partial_us_per_kib = 0;
};

/// \param profile for planning: tiles, workers
FixedCosts measure_fixed_costs(const MachineProfile& profile, Workers& workers, Progress& progress);

/// C(rows, tokens): time of one (item, KV head) on one worker while all are busy, caches cold, less the launch; the
/// least of a few rounds over all pairs.
CostTable measure_cost_table(const MachineProfile& profile, Workers& workers, Progress& progress);
/// How often measure_cost_table steps its progress; measure_fixed_costs does once.
inline constexpr std::size_t kCostTableRounds = 20;

}  // namespace trunkline::cli
