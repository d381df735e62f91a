// `trunkline plan`: what a batch shares, and what each policy makes of it. Allocates no KV cache.
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/if_supported.hpp"
#include "base/text_file.hpp"
#include "cli/explain.hpp"
#include "cli/plan_inputs.hpp"
#include "cli/policies.hpp"
#include "cli/program.hpp"
#include "cli/text.hpp"
#include "cli/trace_file.hpp"
#include "cli/version.hpp"
#include "report/plan_page.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

constexpr std::size_t kListedNodes = 24;  // lines of a forest without --all

Plan plan_of(Planner& planner, const Forest& forest, const Options& options, Policy policy) {
  PlanOptions plan = options.plan;
  plan.policy = policy;
  AttentionShape shape = options.shape;
  shape.device = planner.profile().device;  // a plan for another machine is a prediction
  return planner.plan(forest, shape, plan);
}

nlohmann::ordered_json forest_to_json(const Forest& forest) {
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const ForestNode& node : forest.nodes) {
    nlohmann::ordered_json entry;
    entry["parent"] = node.parent;
    entry["begin"] = node.begin;
    entry["end"] = node.end;
    entry["requests"] = nlohmann::ordered_json::array();
    for (std::int32_t i = node.requests.begin; i < node.requests.end; ++i) {
      entry["requests"].push_back(forest.order[static_cast<std::size_t>(i)]);
    }
    nodes.push_back(std::move(entry));
  }
  return {
      {"total_tokens", forest.total_tokens}, {"distinct_tokens", forest.distinct_tokens}, {"nodes", std::move(nodes)}};
}

void print_json(const DecodeBatch& batch, const Forest& forest, const std::vector<Plan>& plans, const Plan& chosen) {
  nlohmann::ordered_json row;
  row["suite"] = batch.suite;
  row["case"] = batch.label;
  row["source"] = batch.source;
  row["forest"] = forest_to_json(forest);
  for (const Plan& plan : plans) {
    nlohmann::ordered_json statistics = nlohmann::ordered_json::parse(statistics_to_json(plan.statistics));
    statistics["items"] = plan.items.size();
    row["policies"][name_of(plan.policy)] = std::move(statistics);
  }
  row["plan"] = nlohmann::ordered_json::parse(plan_to_json(chosen));
  row["commit"] = commit();
  std::cout << row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

void print_text(const DecodeBatch& batch, const Options& options, const Forest& forest, const std::vector<Plan>& plans,
                const Plan& chosen, const MachineProfile& profile) {
  const std::size_t limit = options.all ? std::numeric_limits<std::size_t>::max() : kListedNodes;
  constexpr std::size_t kTitleWidth = 100;
  std::cout << printable(batch.tree.name + (batch.source.empty() ? "" : " (" + batch.source + ")"), kTitleWidth)
            << '\n';
  print_forest(std::cout, forest, limit);
  std::cout << "\nPlans for " << printable(profile.name, kTitleWidth) << " (" << name_of(profile.device) << "):\n";
  print_plans(std::cout, plans, chosen.policy);
  std::cout << '\n';
  print_items(std::cout, chosen, forest, options.all ? ListLimits::none() : ListLimits{});
}

std::vector<DecodeBatch> chosen_batches(const Options& options) {
  std::vector<DecodeBatch> batches = load_inputs(options);
  if (options.batch > 0) {
    const auto index = static_cast<std::size_t>(options.batch) - 1;
    if (index >= batches.size()) {
      fail(ErrorCode::kInvalidArgument, "--batch is ", options.batch, "; the input has batches 1 to ", batches.size());
    }
    batches = {std::move(batches[index])};
  }
  if (!options.html.empty() && batches.size() > 1) {
    fail(ErrorCode::kInvalidArgument, "--html shows one batch, and the input has ", batches.size(),
         "; choose one with --batch 1 to ", batches.size());
  }
  return batches;
}

void write_page(const Options& options, const DecodeBatch& batch, const Forest& forest, const MachineProfile& profile,
                const std::vector<Plan>& plans, Policy chosen) {
  report::PlanPage page{batch.tree.name,
                        batch.source,
                        version(),
                        commit(),
                        forest,
                        profile,
                        options.plan,
                        plans,
                        chosen,
                        options.plan.policy == Policy::kAuto,
                        {}};
  if (!options.trace.empty()) {
    const std::string name = batch.suite + ":" + batch.label;
    const std::vector<TracedTask> tasks = parse_task_trace(read_text_file(options.trace), options.trace, name);
    page.measured = match_trace(tasks, options.trace, forest, plans, chosen);
  }
  const std::string html = plan_page_html(page);
  std::ofstream file(options.html, std::ios::binary);
  file << html << std::flush;
  if (!file) fail(ErrorCode::kIo, "--html ", options.html, ": cannot be written");
}

}  // namespace

int plan_command(const Options& options) {
  const std::vector<DecodeBatch> batches = chosen_batches(options);
  check_table_memory(batches, options);
  Planner planner = planner_of(options);
  bool first = true;
  for (const DecodeBatch& input : batches) {
    const PagedBatch paged =
        lay_out_pages(input.tree, options.shape.page_size, static_cast<std::uint64_t>(options.seed));
    const Forest forest = build_forest(paged.view(), IdCheck::kAllPages);
    std::vector<Plan> plans;
    for (const Policy policy : packing_policies()) {
      auto plan = if_supported([&] { return plan_of(planner, forest, options, policy); });
      if (plan) plans.push_back(*std::move(plan));
    }
    const Plan chosen = plan_of(planner, forest, options, options.plan.policy);
    if (!options.html.empty()) write_page(options, input, forest, planner.profile(), plans, chosen.policy);
    if (options.json) {
      print_json(input, forest, plans, chosen);
    } else {
      if (!first) std::cout << '\n';
      print_text(input, options, forest, plans, chosen, planner.profile());
    }
    first = false;
  }
  return kExitOk;
}

}  // namespace trunkline::cli
