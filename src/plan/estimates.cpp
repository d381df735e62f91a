#include "plan/estimates.hpp"

#include <algorithm>

namespace trunkline {
namespace {

// Placing more tasks one by one takes longer than planning may.
constexpr std::int64_t kFewTasks = 1024;

}  // namespace

Estimate EstimateLoads::finish(bool few_partials) {
  TaskCosts costs = input_.costs.tasks();
  costs.set_rereads(input_.order.needed_tokens(), estimate_.tokens_read);
  CutChoice cut(costs, scratch_.classes, few_partials);
  TaskLoad* const loads = scratch_.loads.data();
  const auto load_at = [loads](std::int32_t i) -> TaskLoad& { return loads[i]; };
  const auto count = static_cast<std::int32_t>(scratch_.loads.size());
  Nanoseconds time = cut.choose(count, load_at);
  // A GPU's few long tasks leave workers idle of which the bound knows nothing: agentic_weka's 46 items took 11 % more.
  if (input_.profile.device == Device::kCuda && cut.classify(count, load_at) * costs.kv_heads <= kFewTasks)
    time = std::max(time, placed_time(costs));
  estimate_.time = time + costs.launch;
  return estimate_;
}

Nanoseconds EstimateLoads::placed_time(const TaskCosts& costs) const {
  const Nanoseconds makespan = scratch_.classes.makespan(costs.workers, costs.kv_heads, scratch_.worker_loads);
  return costs.finish(makespan, scratch_.classes.ideal_of_busy(costs.workers, costs.kv_heads));
}

void EstimateLoads::spread(std::int64_t tokens, std::int32_t queries, std::int32_t merged) {
  const std::int32_t packs = ceil_div(queries, input_.tiles.max_queries());
  const std::int32_t even = queries / packs;
  const std::int32_t fuller = queries % packs;
  for (std::int32_t pack = 0; pack < packs; ++pack) add_item(tokens, even + (pack < fuller ? 1 : 0), merged / packs);
  estimate_.tokens_read += tokens * packs;
}

void EstimateLoads::look_up(std::int32_t queries) {
  last_ = item_rows(queries, input_.tiles, input_.costs.tasks());
}

}  // namespace trunkline
