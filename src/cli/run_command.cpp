// `trunkline run`: real decode batches through `flat` and a policy, timed in turn and checked.
#include <algorithm>
#include <deque>
#include <iostream>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "cli/measure.hpp"
#include "cli/oracle_check.hpp"
#include "cli/plan_inputs.hpp"
#include "cli/policies.hpp"
#include "cli/program.hpp"
#include "cli/ready_plan.hpp"
#include "cli/run_memory.hpp"
#include "cli/run_report.hpp"
#include "cli/text.hpp"
#include "kv/paged_batch.hpp"
#include "kv/synthetic_cache.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

std::size_t plan_bytes(const Plan& plan) {
  const auto bytes = [](const auto& values) { return values.size() * sizeof(values[0]); };
  return sizeof(Plan) + bytes(plan.queries) + bytes(plan.items) + bytes(plan.item_queries) + bytes(plan.item_outputs) +
         bytes(plan.spans) + bytes(plan.masks) + bytes(plan.merge_queries) + bytes(plan.merge_begin) +
         bytes(plan.merge_slots) + bytes(plan.schedule);
}

struct Machine {
  Workers& workers;
  CpuExecutor executor;
  Planner planner;
  CacheFlusher flusher;
};

Plan plan_of(Machine& machine, const Forest& forest, const Options& options, Policy policy) {
  PlanOptions plan = options.plan;
  plan.policy = policy;
  return machine.planner.plan(forest, options.shape, plan);
}

// What a step does once, on the host, takes microseconds: a few more times than a layer.
int host_repeats(const Options& options) {
  return std::max(options.repeat, 5);
}

double time_resolve(ReadyPlan& plan, const Batch& batch, const Options& options) {
  std::vector<double> us;
  for (int i = 0; i < host_repeats(options); ++i) us.push_back(time_us([&] { plan.resolve(batch); }));
  return summarize(us).us;
}

// Forest and plan again and again, as a serving step would; the first time checks every page id.
Forest time_planning(Machine& machine, const Batch& batch, const Options& options, RunResult& result) {
  ForestBuilder builder;
  Forest forest = builder.build(batch, IdCheck::kAllPages);
  machine.planner.plan(forest, options.shape, options.plan);
  std::vector<double> forest_us;
  std::vector<double> plan_us;
  for (int i = 0; i < host_repeats(options); ++i) {
    const Forest* built = nullptr;
    forest_us.push_back(time_us([&] { built = &builder.build(batch); }));
    plan_us.push_back(time_us([&] { machine.planner.plan(*built, options.shape, options.plan); }));
  }
  result.forest_us = summarize(forest_us).us;
  result.plan_us = summarize(plan_us).us;
  return forest;
}

// Shared machines change their speed from second to second, so the floor's rates are taken beside each batch.
void measure_rates(Machine& machine, MachineRates& best) {
  const MachineProfile now = measure_machine(machine.workers, 1);
  best.read_bytes_per_us = std::max(best.read_bytes_per_us, now.read_bytes_per_us);
  best.flops_per_us = std::max(best.flops_per_us, now.flops_per_us);
}

// In turn, so that a machine whose speed drifts slows all of them alike.
std::vector<Timing> time_runs(Machine& machine, const Options& options, const AttentionArgs& args,
                              std::deque<ReadyPlan>& plans, MachineRates& rates) {
  measure_rates(machine, rates);
  for (ReadyPlan& plan : plans) plan.run(args);
  std::vector<std::vector<double>> us(plans.size());
  for (int i = 0; i < options.repeat; ++i) {
    for (std::size_t p = 0; p < plans.size(); ++p) {
      if (!options.warm) machine.flusher.flush();
      us[p].push_back(time_us([&] { plans[p].run(args); }));
    }
  }
  measure_rates(machine, rates);
  std::vector<Timing> result;
  for (std::vector<double>& samples : us) result.push_back(summarize(std::move(samples)));
  return result;
}

CheckResult check_runs(const Options& options, const Batch& batch, const Forest& forest, const AttentionArgs& args,
                       std::deque<ReadyPlan>& plans) {
  const Oracle oracle(options.shape, batch, args);
  CheckResult check;
  check.rows = oracle.rows();
  const std::size_t rows =
      static_cast<std::size_t>(batch.total_queries()) * static_cast<std::size_t>(options.shape.q_heads);
  for (ReadyPlan& plan : plans) {
    validate_plan(plan.plan(), forest);
    // So that an output which is not written is not taken for the one of the run before.
    std::fill_n(static_cast<float*>(args.out), rows * static_cast<std::size_t>(options.shape.head_dim),
                std::numeric_limits<float>::quiet_NaN());
    std::fill_n(args.lse, rows, std::numeric_limits<float>::quiet_NaN());
    plan.run(args);
    const OracleError error = oracle.compare(args);
    check.error.output = std::max(check.error.output, error.output);
    check.error.lse = std::max(check.error.lse, error.lse);
  }
  check.passed = within(check.error, kTolerance);
  return check;
}

std::vector<Policy> timed_policies(const Options& options) {
  return options.policies.empty() ? std::vector<Policy>{Policy::kFlat, options.plan.policy} : options.policies;
}

// The last of those of a policy: `flat` against `flat` is timed twice.
std::size_t place_of(Policy policy, const std::deque<ReadyPlan>& plans) {
  std::size_t place = plans.size() - 1;
  while (place > 0 && plans[place].plan().policy != policy) --place;
  return place;
}

RunResult run_batch(const DecodeBatch& input, const Options& options, Machine& machine, Progress& progress) {
  RunResult result;
  result.suite = input.suite;
  result.label = input.label;
  result.source = input.source;
  progress.step("planning " + input.tree.name);
  const PagedBatch paged = lay_out_pages(input.tree, options.shape.page_size, static_cast<std::uint64_t>(options.seed));
  const Batch batch = paged.view();
  result.requests = batch.rows();
  const Forest forest = time_planning(machine, batch, options, result);
  for (const Policy shown : packing_policies()) {
    result.tokens_read.push_back(plan_of(machine, forest, options, shown).statistics.kv_tokens_read);
  }

  progress.step("filling the KV cache of " + input.tree.name);
  SyntheticOptions synthetic;
  synthetic.seed = static_cast<std::uint64_t>(options.seed);
  synthetic.layout = options.layout;
  const SyntheticCache cache(options.shape, batch, forest, synthetic, machine.workers);
  // `flat` is the first; where every policy is asked for, what was chosen is one of them.
  std::deque<ReadyPlan> plans;
  for (const Policy timed : timed_policies(options))
    plans.emplace_back(plan_of(machine, forest, options, timed), machine.executor, batch);
  result.chosen = plan_of(machine, forest, options, options.plan.policy).policy;
  const std::size_t chosen = place_of(result.chosen, plans);
  ReadyPlan& policy = plans[chosen];
  result.statistics = policy.plan().statistics;
  result.plan_bytes = plan_bytes(policy.plan());
  result.workspace_bytes = policy.workspace_bytes();
  result.resolve_us = time_resolve(policy, batch, options);

  progress.step("timing " + input.tree.name);
  const std::vector<Timing> times = time_runs(machine, options, cache.args(), plans, result.rates);
  result.flat = times.front();
  result.policy = times[chosen];
  result.floor_us = floor_us(result.statistics, result.rates);
  if (!options.policies.empty()) {
    for (std::size_t p = 0; p < plans.size(); ++p) result.times.push_back({plans[p].plan().policy, times[p]});
  }
  progress.step("checking " + input.tree.name);
  if (options.check) result.check = check_runs(options, batch, forest, cache.args(), plans);
  return result;
}

}  // namespace

int run_command(const Options& options) {
  constexpr std::size_t kSteps = 4;
  const std::vector<DecodeBatch> batches = load_inputs(options);
  const CpuInfo cpu = cpu_info();
  const std::size_t llc_bytes = options.warm ? 0 : static_cast<std::size_t>(std::max<std::int64_t>(cpu.llc_bytes, 0));
  check_run_memory(batches, options, static_cast<std::int64_t>(CacheFlusher::buffer_bytes(llc_bytes)));

  ThreadPool workers(options.threads);
  Machine machine{workers, CpuExecutor(workers), Planner(planning_profile(options, workers)),
                  CacheFlusher(llc_bytes, workers)};
  const RunSetting setting{options, workers.size(), cpu.model, machine.executor.isa()};

  std::vector<RunResult> results;
  {
    Progress progress(batches.size() * kSteps, std::cerr, stderr_is_terminal());
    for (const DecodeBatch& batch : batches) {
      results.push_back(run_batch(batch, options, machine, progress));
      if (options.json) std::cout << run_to_json(setting, results.back()) << std::endl;
    }
  }
  if (!options.json) print_run_tables(std::cout, setting, results);
  const bool wrong = std::any_of(results.begin(), results.end(),
                                 [](const RunResult& result) { return result.check && !result.check->passed; });
  if (wrong) std::cerr << "trunkline: error: an output is further from plain attention than rounding explains\n";
  return wrong ? kExitCheckFailed : kExitOk;
}

}  // namespace trunkline::cli
