// `trunkline run`: real decode batches through `flat` and a policy, timed in turn and checked.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/if_supported.hpp"
#include "cli/measure.hpp"
#include "cli/oracle_check.hpp"
#include "cli/policies.hpp"
#include "cli/program.hpp"
#include "cli/run_backend.hpp"
#include "cli/run_report.hpp"
#include "cli/task_trace.hpp"
#include "cli/text.hpp"
#include "cli/with_cuda.hpp"
#include "synthetic/paged_batch.hpp"
#include "synthetic/synthetic_cache.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

std::size_t plan_bytes(const Plan& plan) {
  const auto bytes = [](const auto& values) { return values.size() * sizeof(values[0]); };
  return sizeof(Plan) + bytes(plan.queries) + bytes(plan.items) + bytes(plan.item_queries) + bytes(plan.item_outputs) +
         bytes(plan.spans) + bytes(plan.masks) + bytes(plan.merge_queries) + bytes(plan.merge_begin) +
         bytes(plan.merge_slots) + bytes(plan.schedule);
}

/// --trace's file.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) : path_(path), file_(path, std::ios::binary), trace_(file_) { check(); }
  void add(const TracedRun& run) { trace_.add(run); }
  void finish() {
    trace_.finish();
    file_ << std::flush;
    check();
  }

 private:
  void check() const {
    if (!file_) fail(ErrorCode::kIo, "--trace ", path_, ": cannot be written");
  }

  std::string path_;
  std::ofstream file_;
  ChromeTrace trace_;
};

struct Machine {
  const Options& options;
  PlanOptions plan;
  Workers& workers;  // of the host, which makes the tensors
  RunBackend& backend;
  TraceFile* trace;  // may be null
};

PlanOptions plan_options(const Options& options, const MachineProfile& profile) {
  PlanOptions plan = options.plan;
  if (options.one_tile && plan.tile == TileShape{}) plan.tile = profile.tiles.back();
  return plan;
}

Plan plan_of(const Machine& machine, const Forest& forest, Policy policy) {
  PlanOptions plan = machine.plan;
  plan.policy = policy;
  return machine.backend.planner().plan(forest, machine.options.shape, plan);
}

// Forest and plan again and again, as a serving step would; the first time checks every page id.
Forest time_planning(const Machine& machine, const Batch& batch, RunResult& result) {
  const AttentionShape& shape = machine.options.shape;
  Planner& planner = machine.backend.planner();
  ForestBuilder builder;
  Forest forest = builder.build(batch, IdCheck::kAllPages);
  planner.plan(forest, shape, machine.plan);
  std::vector<double> forest_us;
  std::vector<double> plan_us;
  for (int i = 0; i < host_repeats(machine.options); ++i) {
    const Forest* built = nullptr;
    forest_us.push_back(time_us([&] { built = &builder.build(batch); }));
    plan_us.push_back(time_us([&] { planner.plan(*built, shape, machine.plan); }));
  }
  result.forest_us = summarize(forest_us).us;
  result.plan_us = summarize(plan_us).us;
  return forest;
}

CheckResult check_runs(const Machine& machine, const HostBatch& host, const Forest& forest, LoadedBatch& loaded,
                       std::size_t plans) {
  const Oracle oracle(machine.options.shape, host.batch, host.tensors, &machine.workers);
  CheckResult check;
  check.rows = oracle.rows();
  for (std::size_t p = 0; p < plans; ++p) {
    validate_plan(loaded.plan(p), forest);
    loaded.run(p);
    const OracleError error = oracle.compare(host.tensors);
    check.error.output = std::max(check.error.output, error.output);
    check.error.lse = std::max(check.error.lse, error.lse);
  }
  check.passed = within(check.error, machine.backend.device().tolerance);
  return check;
}

double trace_run(const Machine& machine, const std::string& name, const HostBatch& host, LoadedBatch& loaded,
                 std::size_t plan) {
  const std::vector<experimental::CudaTaskTime> tasks = loaded.record(plan);
  const bool launch_per_tile = machine.options.forward != experimental::ForwardMode::kPersistent;
  const TracedRun run{name, loaded.plan(plan), host.batch.kv_lens, launch_per_tile, tasks};
  machine.trace->add(run);
  return bubble_share(run, machine.backend.workers());
}

std::vector<Policy> timed_policies(const Options& options) {
  return options.policies.empty() ? std::vector<Policy>{Policy::kFlat, options.plan.policy} : options.policies;
}

// The last of those of a policy: `flat` against `flat` is timed twice.
std::size_t place_of(Policy policy, const std::vector<Plan>& plans) {
  std::size_t place = plans.size() - 1;
  while (place > 0 && plans[place].policy != policy) --place;
  return place;
}

// The plans that are timed, and the index of the chosen plan.
struct PlannedBatch {
  std::vector<Plan> plans;  // `flat` is the first; where every policy is asked for, what was chosen is one of them
  std::size_t chosen = 0;
};

PlannedBatch plan_batch(const Machine& machine, const Forest& forest, RunResult& result) {
  for (const Policy shown : packing_policies()) {
    result.tokens_read.push_back(
        if_supported([&] { return plan_of(machine, forest, shown).statistics.kv_tokens_read; }));
  }
  PlannedBatch planned;
  for (const Policy timed : timed_policies(machine.options)) planned.plans.push_back(plan_of(machine, forest, timed));
  result.chosen = plan_of(machine, forest, machine.plan.policy).policy;
  planned.chosen = place_of(result.chosen, planned.plans);
  const Plan& chosen = planned.plans[planned.chosen];
  result.statistics = chosen.statistics;
  result.plan_bytes = plan_bytes(chosen);
  return planned;
}

void time_batch(const Machine& machine, LoadedBatch& loaded, std::size_t chosen, RunResult& result) {
  result.workspace_bytes = loaded.workspace_bytes(chosen);
  result.upload_us = loaded.upload_us(chosen);
  result.resolve_us = loaded.resolve_us(chosen);
  const std::vector<Timing> times = loaded.time();
  result.flat = times.front();
  result.policy = times[chosen];
  result.rates = loaded.rates();
  result.floor_us = loaded.floor_us(result.statistics);
  if (machine.options.policies.empty()) return;
  for (std::size_t p = 0; p < times.size(); ++p) result.times.push_back({loaded.plan(p).policy, times[p]});
}

RunResult run_batch(const DecodeBatch& input, const Machine& machine, Progress& progress) {
  const Options& options = machine.options;
  RunResult result;
  result.suite = input.suite;
  result.label = input.label;
  result.source = input.source;
  progress.step("planning " + input.tree.name);
  const PagedBatch paged = lay_out_pages(input.tree, options.shape.page_size, static_cast<std::uint64_t>(options.seed));
  const Batch batch = paged.view();
  result.requests = batch.rows();
  const Forest forest = time_planning(machine, batch, result);
  PlannedBatch planned = plan_batch(machine, forest, result);

  progress.step("filling the KV cache of " + input.tree.name);
  SyntheticOptions synthetic;
  synthetic.seed = static_cast<std::uint64_t>(options.seed);
  synthetic.layout = options.layout;
  const SyntheticCache cache(options.shape, batch, forest, synthetic, machine.workers);
  const std::vector<float> sinks(static_cast<std::size_t>(options.shape.q_heads), 1.0F);
  AttentionArgs tensors = cache.args();
  tensors.window_left = options.variant.window_left;
  tensors.soft_cap = options.variant.soft_cap;
  if (options.variant.sinks) tensors.sinks = sinks.data();
  const HostBatch host{paged, batch, tensors};
  const std::size_t plans = planned.plans.size();
  const std::unique_ptr<LoadedBatch> loaded = machine.backend.load(host, std::move(planned.plans));

  progress.step("timing " + input.tree.name);
  time_batch(machine, *loaded, planned.chosen, result);
  progress.step("checking " + input.tree.name);
  if (options.check) result.check = check_runs(machine, host, forest, *loaded, plans);
  if (machine.trace != nullptr) {
    result.bubble_share = trace_run(machine, input.suite + ":" + input.label, host, *loaded, planned.chosen);
  }
  return result;
}

}  // namespace

int run_command(const Options& options) {
  constexpr std::size_t kSteps = 4;
  const std::vector<DecodeBatch> batches = load_inputs(options);
  ThreadPool workers(options.threads);
  const std::unique_ptr<RunBackend> backend = options.shape.device == Device::kCuda
                                                  ? make_cuda_backend(options, batches)
                                                  : make_cpu_backend(options, batches, workers);
  std::optional<TraceFile> trace;
  if (!options.trace.empty()) trace.emplace(options.trace);
  const MachineProfile& profile = backend->planner().profile();
  const Machine machine{options, plan_options(options, profile), workers, *backend, trace ? &*trace : nullptr};
  const RunSetting setting{options, workers.size(), backend->device(), profile.name};

  std::vector<RunResult> results;
  {
    Progress progress(batches.size() * kSteps, std::cerr, stderr_is_terminal());
    for (const DecodeBatch& batch : batches) {
      results.push_back(run_batch(batch, machine, progress));
      if (options.json) std::cout << run_to_json(setting, results.back()) << std::endl;
    }
  }
  if (trace) trace->finish();
  if (!options.json) print_run_tables(std::cout, setting, results);
  const bool wrong = std::any_of(results.begin(), results.end(),
                                 [](const RunResult& result) { return result.check && !result.check->passed; });
  if (wrong) std::cerr << "trunkline: error: an output is further from plain attention than rounding explains\n";
  return wrong ? kExitCheckFailed : kExitOk;
}

}  // namespace trunkline::cli
