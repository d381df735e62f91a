// `trunkline replay`: a recorded trace walked through a serving loop with a prefix cache, step by step.
#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/text_file.hpp"
#include "cli/cluster_report.hpp"
#include "cli/output_file.hpp"
#include "cli/plan_inputs.hpp"
#include "cli/program.hpp"
#include "cli/replay_execute.hpp"
#include "cli/replay_report.hpp"
#include "cli/text.hpp"
#include "cli/version.hpp"
#include "replay/formats/format_table.hpp"
#include "replay/replay_page.hpp"

namespace trunkline::cli {
namespace {

replay::Trace load(const Options& options) {
  const std::size_t limit = options.limit > 0 ? static_cast<std::size_t>(options.limit) : kAllLines;
  replay::Trace trace = replay::load_trace(options.inputs.front(), options.replay.format, limit);
  if (options.replay.pat_style) replay::apply_pat_style(trace, options.replay.pat);
  return trace;
}

/// Passes each step to the outputs that were asked for.
class StepSinks {
 public:
  StepSinks(const Options& options, StepExecutor* executor, replay::ReplayPage* page)
      : options_(options), executor_(executor), page_(page) {
    if (!options.replay.json_file.empty()) json_.emplace("--json", options.replay.json_file);
  }

  void add(replay::Replay& run) {
    const replay::StepRecord& step = run.record();
    totals_.add(step);
    if (page_ != nullptr) page_->add(page_step(step));
    std::optional<ExecutedStep> executed;
    if (executor_ != nullptr && step.step % options_.replay.execute == 0) {
      executed = executor_->run(run.live(), run.plan());
      ++executed_.steps;
      executed_.wrong += executed->passed ? 0 : 1;
      executed_.error.output = std::max(executed_.error.output, executed->error.output);
      executed_.error.lse = std::max(executed_.error.lse, executed->error.lse);
    }
    if (json_) json_->write(step_to_json(step, executed) + "\n");
  }
  void finish(const ReplayResult& result) {
    if (!json_) return;
    json_->write(summary_to_json(result) + "\n");
    json_->finish();
  }
  const replay::ReplayTotals& totals() const { return totals_; }
  const ExecutedSteps& executed() const { return executed_; }

 private:
  static replay::ReplayStep page_step(const replay::StepRecord& step) {
    replay::ReplayStep shown;
    shown.time_s = step.time_s;
    shown.requests = step.requests;
    shown.kv_tokens_total = step.kv_tokens_total;
    shown.kv_tokens_distinct = step.kv_tokens_distinct;
    shown.kept = step.source == PlanSource::kReused;
    shown.exposed_us = step.exposed_us;
    shown.hidden_us = step.hidden_us;
    const auto show = [&](const replay::PolicyPrice& price) {
      shown.predicted_us.push_back(price.predicted_us);
      shown.kv_bytes.push_back(static_cast<double>(price.kv_bytes));
    };
    for (const replay::PolicyPrice& price : step.prices) show(price);
    show(step.price);
    return shown;
  }

  const Options& options_;
  StepExecutor* executor_;
  replay::ReplayPage* page_;
  std::optional<OutputFile> json_;
  replay::ReplayTotals totals_;
  ExecutedSteps executed_;
};

void walk(replay::Replay& run, const replay::Trace& trace, StepSinks& sinks) {
  constexpr std::size_t kDraws = 200;
  const auto whole =
      static_cast<std::size_t>(trace.searches() ? trace.size() : static_cast<std::int32_t>(trace.requests.size()));
  Progress progress(kDraws, std::cerr, stderr_is_terminal());
  std::size_t drawn = 0;
  while (run.step()) {
    sinks.add(run);
    const auto admitted = static_cast<std::size_t>(run.scheduler().counts().admitted);
    for (; drawn < kDraws * admitted / std::max<std::size_t>(whole, 1); ++drawn) {
      progress.step(concat("step ", run.record().step, ", ", admitted, " of ", whole, " admitted"));
    }
  }
}

replay::ReplayPage page_of(const Options& options, const replay::Trace& trace, const std::string& machine) {
  replay::ReplayPage page;
  page.title = trace.name;
  page.format = trace.format + (options.replay.pat_style ? ", PAT-style" : "");
  page.caution = trace.caution;
  page.version = version();
  page.commit = commit();
  page.shape = options.shape;
  page.machine = machine;
  page.layers = options.replay.loop.layers;
  for (const Policy policy : options.replay.loop.policies) page.policies.emplace_back(name_of(policy));
  page.policies.push_back(concat("planned: ", name_of(options.plan.policy)));
  return page;
}

int replay_cluster(const Options& given) {
  Options options = given;
  replay::SuperpositionOptions& load_options = options.replay.superposition;
  if (load_options.copies == 0) load_options.copies = options.replay.replicas;
  options.replay.loop.scheduler.match_again = true;  // else siblings that arrive together would not share their prompt
  const replay::RoutingPolicy& policy = replay::routing_policy(options.replay.routing);
  const replay::Trace trace = replay::superpose(load(options), load_options);
  std::optional<OutputFile> json;
  if (!options.replay.json_file.empty()) json.emplace("--json", options.replay.json_file);
  ThreadPool workers(options.threads);
  const MachineProfile profile = planning_profile(options, workers);
  replay::Cluster cluster(trace, replay::superpose(options.replay.arrivals, load_options.copies), profile,
                          options.replay.loop, options.replay.replicas, policy);
  replay::ReplayTotals totals;
  std::vector<ReplicaTotals> replicas(static_cast<std::size_t>(cluster.size()));
  for (std::int32_t replica = cluster.step(); replica >= 0; replica = cluster.step()) {
    const replay::StepRecord& step = cluster.replica(replica).record();
    totals.add(step);
    replicas[static_cast<std::size_t>(replica)].add(step);
  }
  const ClusterResult result{options, trace, cluster, totals, replicas, profile.name};
  if (json) {
    json->write(cluster_to_json(result));
    json->finish();
  }
  print_cluster(std::cout, result);
  return kExitOk;
}

}  // namespace

int replay_command(const Options& options) {
  if (options.replay.replicas > 0) return replay_cluster(options);
  const replay::Trace trace = load(options);
  ThreadPool workers(options.threads);
  std::optional<StepExecutor> executor;
  if (options.replay.execute > 0) executor.emplace(options, workers);
  const MachineProfile profile = executor ? executor->profile() : planning_profile(options, workers);
  replay::ReplayPage page = page_of(options, trace, profile.name);
  std::optional<OutputFile> html;
  if (!options.html.empty()) html.emplace("--html", options.html);
  StepSinks sinks(options, executor ? &*executor : nullptr, html ? &page : nullptr);

  replay::Replay run(trace, options.replay.arrivals, profile, options.replay.loop);
  walk(run, trace, sinks);
  const ReplayResult result{options,
                            trace,
                            sinks.totals(),
                            run.scheduler().counts(),
                            run.prompt_steps(),
                            run.scheduler().batch().kv().evicted_pages(),
                            run.now_s(),
                            profile.name,
                            sinks.executed()};
  sinks.finish(result);
  if (html) {
    html->write(replay::replay_page_html(page));
    html->finish();
  }
  print_replay(std::cout, result);
  return result.executed.wrong == 0 ? kExitOk : kExitCheckFailed;
}

}  // namespace trunkline::cli
