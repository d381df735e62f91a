// `trunkline compare`: the plans that each policy makes of the same batches, side by side. Runs no kernel.
#include <iostream>
#include <vector>

#include "base/if_supported.hpp"
#include "cli/compare_table.hpp"
#include "cli/measure.hpp"
#include "cli/plan_inputs.hpp"
#include "cli/program.hpp"
#include "cli/text.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

// Planning takes microseconds; the first call makes room.
constexpr int kTimedPlans = 5;

const Plan& plan_by(Planner& planner, const Forest& forest, const Options& options, Policy policy) {
  PlanOptions plan_options = options.plan;
  plan_options.policy = policy;
  AttentionShape shape = options.shape;
  shape.device = planner.profile().device;  // a plan for another machine is a prediction
  return planner.plan(forest, shape, plan_options);
}

ComparedPlan compare_plan(Planner& planner, const Forest& forest, const Options& options, Policy policy) {
  const Plan& plan = plan_by(planner, forest, options, policy);
  validate_plan(plan, forest);
  ComparedPlan result{plan.policy, plan.statistics, plan.items.size(), 0};
  std::vector<double> us;
  for (int i = 0; i < kTimedPlans; ++i) us.push_back(time_us([&] { plan_by(planner, forest, options, policy); }));
  result.plan_us = summarize(us).us;
  return result;
}

// The requested policies that the machine's tiles can serve, found by planning an empty batch. Where there is none, all
// requested policies: planning says why.
std::vector<Policy> served_policies(const Options& options, Planner& planner) {
  std::vector<Policy> served;
  for (const Policy policy : options.policies) {
    if (if_supported([&] { return plan_by(planner, Forest{}, options, policy).policy; })) served.push_back(policy);
  }
  return served.empty() ? options.policies : served;
}

ComparedBatch compare_batch(const DecodeBatch& input, const Options& options, const std::vector<Policy>& policies,
                            Planner& planner) {
  const PagedBatch paged = lay_out_pages(input.tree, options.shape.page_size, static_cast<std::uint64_t>(options.seed));
  const Forest forest = build_forest(paged.view(), IdCheck::kAllPages);
  ComparedBatch result{input.suite, input.label, input.source, paged.view().rows(), {}, {}};
  for (const Policy policy : policies) result.plans.push_back(compare_plan(planner, forest, options, policy));
  result.picked = compare_plan(planner, forest, options, Policy::kAuto);
  return result;
}

}  // namespace

int compare_command(const Options& options) {
  const std::vector<DecodeBatch> inputs = load_inputs(options);
  check_table_memory(inputs, options);
  Planner planner = planner_of(options);
  const std::vector<Policy> policies = served_policies(options, planner);
  if (!options.json) {
    constexpr std::size_t kNameWidth = 100;
    std::cout << "Plans for " << printable(planner.profile().name, kNameWidth) << " ("
              << name_of(planner.profile().device) << ")\n\n";
  }
  std::vector<ComparedBatch> batches;
  for (const DecodeBatch& input : inputs) {
    batches.push_back(compare_batch(input, options, policies, planner));
    if (options.json) {
      std::cout << compared_to_json(options, planner.profile().name, batches.back()) << '\n';
    } else {
      print_compared(std::cout, batches.back());
    }
  }
  if (options.json) {
    std::cout << means_to_json(options, planner.profile().name, batches) << '\n';
  } else {
    print_means(std::cout, batches);
  }
  return kExitOk;
}

}  // namespace trunkline::cli
