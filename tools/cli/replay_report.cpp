#include "cli/replay_report.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "base/check.hpp"
#include "cli/text.hpp"
#include "cli/version.hpp"

namespace trunkline::cli {
namespace {

using Json = nlohmann::ordered_json;
using replay::EventCounts;
using replay::PolicyPrice;
using replay::ReplayTotals;
using replay::Spread;
using replay::spread_of;

constexpr std::array kSources = {PlanSource::kReused, PlanSource::kMembership, PlanSource::kTruncated,
                                 PlanSource::kGrowth, PlanSource::kEdited,     PlanSource::kFlat};
static_assert(kSources.size() == ReplayTotals::kSources);

std::string dump(const Json& row) {
  return row.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const EventCounts& events) {
  return {{"joins", events.joins},
          {"leaves", events.leaves},
          {"forks", events.forks},
          {"copies", events.copies},
          {"truncations", events.truncations}};
}

Json to_json(const std::vector<PolicyPrice>& prices) {
  Json policies = Json::object();
  for (const PolicyPrice& price : prices) {
    policies[name_of(price.policy)] = {
        {"predicted_us", price.predicted_us}, {"kv_bytes", price.kv_bytes}, {"partial_bytes", price.partial_bytes}};
  }
  return policies;
}

Json to_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"median", spread.median}, {"p99", spread.p99}, {"max", spread.most}};
}

Json to_json(const ExecutedStep& executed) {
  Json row = {{"rows", executed.rows},
              {"max_err", executed.error.output},
              {"max_lse_err", executed.error.lse},
              {"passed", executed.passed}};
  for (const PolicyTiming& time : executed.times) row["us_by"][name_of(time.policy)] = time.timing.us;
  return row;
}

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

std::string share_of(std::int64_t part, std::int64_t whole) {
  return percent(whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole));
}

void print_setting(std::ostream& out, const ReplayResult& result) {
  constexpr std::size_t kNameWidth = 100;
  const Options& options = result.options;
  const AttentionShape& shape = options.shape;
  const replay::ReplayOptions& loop = options.replay.loop;
  out << printable(result.trace.name, kNameWidth) << " (" << result.trace.format
      << (options.replay.pat_style ? ", PAT-style" : "") << "), planned for " << printable(result.machine, kNameWidth)
      << '\n'
      << shape.q_heads << '/' << shape.kv_heads << " heads of " << shape.head_dim_qk << ", " << name_of(shape.q_dtype)
      << ", " << loop.layers << " layers; " << with_commas(loop.scheduler.num_pages) << " pages of " << shape.page_size
      << ", at most " << loop.scheduler.max_batch << " requests and " << with_commas(loop.scheduler.token_budget)
      << " tokens a step\n";
  if (!result.trace.caution.empty()) out << "Note: " << result.trace.caution << ".\n";
}

void print_served(std::ostream& out, const ReplayResult& result) {
  const replay::SchedulerCounts& counts = result.counts;
  const bool searches = result.trace.searches();
  out << '\n'
      << with_commas(counts.admitted) << (searches ? " searches" : " requests") << " in " << fixed(result.seconds, 1)
      << " s of the replay's clock; " << with_commas(counts.prompt_tokens) << " prompt tokens, "
      << share_of(counts.cached_tokens, counts.prompt_tokens) << " found in the prefix cache; "
      << with_commas(counts.output_tokens) << " output tokens; " << with_commas(result.evicted_pages)
      << " pages evicted\n";
  if (counts.refused > 0) {
    out << with_commas(counts.refused)
        << " were refused: an empty pool or batch could not hold them (--pool, --batch)\n";
  }
}

void print_steps(std::ostream& out, const ReplayResult& result) {
  const ReplayTotals& totals = result.totals;
  const double steps = static_cast<double>(std::max<std::int64_t>(totals.steps, 1));
  const Spread sharing = spread_of(totals.sharing);
  out << with_commas(totals.steps) << " decode steps, " << with_commas(result.prompt_steps)
      << " more for prompts alone; " << fixed(static_cast<double>(totals.requests) / steps, 1)
      << " requests a step\nSharing, KV tokens one request at a time over distinct ones: "
      << fixed(totals.sharing_of_all(), 3) << " over all steps; median " << fixed(sharing.median, 3) << ", most "
      << fixed(sharing.most, 3) << "\nEvents: " << with_commas(totals.events.joins) << " joins, "
      << with_commas(totals.events.leaves) << " leaves, " << with_commas(totals.events.forks) << " forks, "
      << with_commas(totals.events.copies) << " copied pages, " << with_commas(totals.events.truncations)
      << " truncations\n";
  out << "Plans: " << share_of(totals.of(PlanSource::kReused), totals.steps) << " of the steps kept theirs;";
  for (const PlanSource source : kSources) {
    if (totals.of(source) > 0) out << ' ' << name_of(source) << ' ' << with_commas(totals.of(source));
  }
  out << '\n';
  const auto times = [&](const char* name, const std::vector<double>& samples) {
    const Spread spread = spread_of(samples);
    if (samples.empty()) return;
    out << "  " << name << ": mean " << human_time(spread.mean) << ", median " << human_time(spread.median) << ", 99 % "
        << human_time(spread.p99) << ", most " << human_time(spread.most) << '\n';
  };
  times("planning that a step waits for, all steps", totals.exposed_us);
  times("the same, steps without a kept plan", totals.replanned_us);
  times("planning hidden behind the step before", totals.hidden_us);
}

void print_policies(std::ostream& out, const ReplayResult& result) {
  const ReplayTotals& totals = result.totals;
  if (totals.steps == 0) return;
  const double steps = static_cast<double>(totals.steps);
  out << "\nMeans over decode steps, one layer; times are predicted.\n\n";
  Table table({"policy", "attention", "x planned", "KV bytes", "partial bytes"});
  const auto add = [&](const std::string& name, const PolicyPrice& price) {
    table.add({name, human_time(price.predicted_us / steps), fixed(price.predicted_us / totals.price.predicted_us, 3),
               human_bytes(static_cast<double>(price.kv_bytes) / steps),
               human_bytes(static_cast<double>(price.partial_bytes) / steps)});
  };
  for (const PolicyPrice& price : totals.prices) add(name_of(price.policy), price);
  add(std::string("planned: ") + name_of(totals.price.policy), totals.price);
  table.print(out);
}

void print_executed(std::ostream& out, const ReplayResult& result) {
  if (result.options.replay.execute == 0) return;
  const ExecutedSteps& executed = result.executed;
  out << '\n'
      << with_commas(executed.steps - executed.wrong) << " of " << with_commas(executed.steps)
      << " executed steps are right against plain attention in fp64; largest error "
      << scientific(executed.error.output) << ", of the log-sum-exp " << scientific(executed.error.lse) << '\n';
}

Json setting_to_json(const Options& options) {
  const replay::ReplayOptions& loop = options.replay.loop;
  const AttentionShape& shape = options.shape;
  Json setting = {{"heads", concat(shape.q_heads, '/', shape.kv_heads)},
                  {"head_dim", shape.head_dim_qk},
                  {"dtype", name_of(shape.q_dtype)},
                  {"page_size", shape.page_size},
                  {"policy", name_of(loop.plan.plan.policy)},
                  {"planner", loop.async ? "async" : "sync"},
                  {"layers", loop.layers},
                  {"rest_us", loop.rest_us},
                  {"prompt_us", loop.prompt_token_us},
                  {"pool", loop.scheduler.num_pages},
                  {"batch", loop.scheduler.max_batch},
                  {"token_budget", loop.scheduler.token_budget},
                  {"prefix_cache", loop.scheduler.prefix_cache},
                  {"drafts", loop.scheduler.drafts},
                  {"limit", options.limit},
                  {"time_scale", options.replay.arrivals.time_scale},
                  {"seed", options.seed},
                  {"pat_style", options.replay.pat_style}};
  if (loop.step_us) setting["step_us"] = *loop.step_us;
  if (options.replay.arrivals.rate) setting["rate"] = *options.replay.arrivals.rate;
  if (options.replay.arrivals.side_by_side > 0) setting["sessions"] = options.replay.arrivals.side_by_side;
  return setting;
}

}  // namespace

std::string step_to_json(const replay::StepRecord& step, const std::optional<ExecutedStep>& executed) {
  Json row = {{"kind", "step"},
              {"step", step.step},
              {"time_s", step.time_s},
              {"requests", step.requests},
              {"queries", step.queries},
              {"kv_tokens_total", step.kv_tokens_total},
              {"kv_tokens_distinct", step.kv_tokens_distinct},
              {"sharing", step.sharing()},
              {"nodes", step.nodes},
              {"node_tokens_mean", step.node_tokens_mean},
              {"node_tokens_deviation", step.node_tokens_deviation},
              {"events", to_json(step.work.events)},
              {"prompt_tokens", step.work.prompt_tokens},
              {"prompts_waiting", step.work.prompts},
              {"held_pages", step.held_pages},
              {"cached_pages", step.cached_pages},
              {"plan", name_of(step.source)},
              {"chosen", name_of(step.chosen)},
              {"exposed_us", step.exposed_us},
              {"hidden_us", step.hidden_us},
              {"attention_us", step.price.predicted_us},
              {"step_us", step.step_us}};
  if (step.priced) row["policies"] = to_json(step.prices);
  if (executed) row["executed"] = to_json(*executed);
  return dump(row);
}

std::string summary_to_json(const ReplayResult& result) {
  const ReplayTotals& totals = result.totals;
  Json sources = Json::object();
  for (const PlanSource source : kSources) sources[name_of(source)] = totals.of(source);
  Json row = {{"kind", "summary"},
              {"trace", result.trace.name},
              {"format", result.trace.format},
              {"machine", result.machine},
              {"setting", setting_to_json(result.options)},
              {"admitted", result.counts.admitted},
              {"refused", result.counts.refused},
              {"prompt_tokens", result.counts.prompt_tokens},
              {"cached_tokens", result.counts.cached_tokens},
              {"output_tokens", result.counts.output_tokens},
              {"evicted_pages", result.evicted_pages},
              {"seconds", result.seconds},
              {"steps", totals.steps},
              {"prompt_steps", result.prompt_steps},
              {"requests", totals.requests},
              {"kv_tokens_total", totals.kv_tokens_total},
              {"kv_tokens_distinct", totals.kv_tokens_distinct},
              {"sharing", totals.sharing_of_all()},
              {"sharing_by_step", to_json(spread_of(totals.sharing))},
              {"events", to_json(totals.events)},
              {"plans", std::move(sources)},
              {"kept_share", totals.kept_share()},
              {"exposed_us", to_json(spread_of(totals.exposed_us))},
              {"exposed_replanned_us", to_json(spread_of(totals.replanned_us))},
              {"hidden_us", to_json(spread_of(totals.hidden_us))},
              {"attention_us", totals.price.predicted_us},
              {"policies", to_json(totals.prices)},
              {"executed_steps", result.executed.steps},
              {"wrong_steps", result.executed.wrong},
              {"max_err", result.executed.error.output},
              {"max_lse_err", result.executed.error.lse},
              {"device", cpu_info().model},
              {"commit", commit()}};
  return dump(row);
}

void print_replay(std::ostream& out, const ReplayResult& result) {
  print_setting(out, result);
  print_served(out, result);
  print_steps(out, result);
  print_policies(out, result);
  print_executed(out, result);
}

}  // namespace trunkline::cli
