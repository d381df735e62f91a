#include "cli/cluster_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/check.hpp"
#include "cli/text.hpp"
#include "cli/version.hpp"

namespace trunkline::cli {
namespace {

using Json = nlohmann::ordered_json;
using replay::SchedulerCounts;
using replay::Spread;
using replay::spread_of;

constexpr double kUsPerSecond = 1e6;

double ratio(double part, double whole) {
  return whole == 0 ? 0 : part / whole;
}

double sharing_of(const ReplicaTotals& totals) {
  if (totals.kv_tokens_distinct == 0) return 1;
  return static_cast<double>(totals.kv_tokens_total) / static_cast<double>(totals.kv_tokens_distinct);
}

/// Facts of the replicas after the last step, summed up.
struct Facts {
  SchedulerCounts counts;
  std::vector<double> admitted_s;
  std::vector<double> first_token_s;
  std::vector<double> held_bytes_max;   // by replica
  std::vector<double> held_bytes_mean;  // by replica that decoded
  std::int64_t evicted_pages = 0;
  double seconds = 0;
  double busy_s = 0;
  double most_busy_s = 0;
};

double page_bytes(const Options& options) {
  return static_cast<double>(options.shape.kv_bytes_per_token()) * options.shape.kv_heads * options.shape.page_size *
         options.replay.loop.layers;
}

Facts facts_of(const ClusterResult& result) {
  Facts facts;
  const double bytes = page_bytes(result.options);
  for (std::int32_t i = 0; i < result.cluster.size(); ++i) {
    replay::Replay& replica = result.cluster.replica(i);
    const SchedulerCounts& counts = replica.scheduler().counts();
    facts.counts.admitted += counts.admitted;
    facts.counts.refused += counts.refused;
    facts.counts.prompt_tokens += counts.prompt_tokens;
    facts.counts.cached_tokens += counts.cached_tokens;
    facts.counts.output_tokens += counts.output_tokens;
    const replay::SchedulerDelays& delays = replica.scheduler().delays();
    facts.admitted_s.insert(facts.admitted_s.end(), delays.admitted_s.begin(), delays.admitted_s.end());
    facts.first_token_s.insert(facts.first_token_s.end(), delays.first_token_s.begin(), delays.first_token_s.end());
    const ReplicaTotals& totals = result.replicas[static_cast<std::size_t>(i)];
    facts.held_bytes_max.push_back(static_cast<double>(totals.held_pages_max) * bytes);
    if (totals.steps > 0) {
      facts.held_bytes_mean.push_back(
          ratio(static_cast<double>(totals.held_pages_sum), static_cast<double>(totals.steps)) * bytes);
    }
    facts.evicted_pages += replica.scheduler().batch().kv().evicted_pages();
    facts.seconds = std::max(facts.seconds, replica.now_s());
    facts.busy_s += replica.busy_s();
    facts.most_busy_s = std::max(facts.most_busy_s, replica.busy_s());
  }
  return facts;
}

Json to_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"median", spread.median}, {"p99", spread.p99}, {"max", spread.most}};
}

std::string dump(const Json& row) {
  return row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json replica_to_json(const ClusterResult& result, std::int32_t index) {
  replay::Replay& replica = result.cluster.replica(index);
  const ReplicaTotals& totals = result.replicas[static_cast<std::size_t>(index)];
  const SchedulerCounts& counts = replica.scheduler().counts();
  return {{"kind", "replica"},
          {"replica", index},
          {"sent", result.cluster.sent(index)},
          {"admitted", counts.admitted},
          {"refused", counts.refused},
          {"prompt_tokens", counts.prompt_tokens},
          {"cached_tokens", counts.cached_tokens},
          {"output_tokens", counts.output_tokens},
          {"steps", totals.steps},
          {"requests", totals.requests},
          {"kv_tokens_total", totals.kv_tokens_total},
          {"kv_tokens_distinct", totals.kv_tokens_distinct},
          {"sharing", sharing_of(totals)},
          {"attention_us", totals.attention_us},
          {"busy_s", replica.busy_s()},
          {"kv_bytes_max", static_cast<double>(totals.held_pages_max) * page_bytes(result.options)}};
}

Json summary_to_json(const ClusterResult& result) {
  const Options& options = result.options;
  const replay::ReplayTotals& totals = result.totals;
  const Facts facts = facts_of(result);
  Json policies = Json::object();
  for (const replay::PolicyPrice& price : totals.prices) policies[name_of(price.policy)] = price.predicted_us;
  return {{"kind", "cluster"},
          {"trace", result.trace.name},
          {"format", result.trace.format},
          {"machine", result.machine},
          {"routing", options.replay.routing},
          {"replicas", result.cluster.size()},
          {"copies", options.replay.superposition.copies},
          {"samples", options.replay.superposition.samples},
          {"common_share", options.replay.superposition.common_share},
          {"heads", concat(options.shape.q_heads, '/', options.shape.kv_heads)},
          {"head_dim", options.shape.head_dim_qk},
          {"dtype", name_of(options.shape.q_dtype)},
          {"page_size", options.shape.page_size},
          {"policy", name_of(options.plan.policy)},
          {"layers", options.replay.loop.layers},
          {"pool", options.replay.loop.scheduler.num_pages},
          {"batch", options.replay.loop.scheduler.max_batch},
          {"limit", options.limit},
          {"time_scale", options.replay.arrivals.time_scale},
          {"admitted", facts.counts.admitted},
          {"refused", facts.counts.refused},
          {"prompt_tokens", facts.counts.prompt_tokens},
          {"cached_tokens", facts.counts.cached_tokens},
          {"output_tokens", facts.counts.output_tokens},
          {"evicted_pages", facts.evicted_pages},
          {"steps", totals.steps},
          {"requests", totals.requests},
          {"kv_tokens_total", totals.kv_tokens_total},
          {"kv_tokens_distinct", totals.kv_tokens_distinct},
          {"sharing", totals.sharing_of_all()},
          {"attention_us", totals.price.predicted_us},
          {"attention_us_by", policies},
          {"queue_s", to_json(spread_of(facts.admitted_s))},
          {"first_token_s", to_json(spread_of(facts.first_token_s))},
          {"kv_bytes_max", to_json(spread_of(facts.held_bytes_max))},
          {"kv_bytes_mean", to_json(spread_of(facts.held_bytes_mean))},
          {"seconds", facts.seconds},
          {"busy_s", facts.busy_s},
          {"busiest_s", facts.most_busy_s},
          {"commit", commit()}};
}

std::string seconds_text(double seconds) {
  return human_time(seconds * kUsPerSecond);
}

std::string percent(double part, double whole) {
  return fixed(100 * ratio(part, whole), 1) + " %";
}

}  // namespace

void ReplicaTotals::add(const replay::StepRecord& step) {
  ++steps;
  requests += step.requests;
  kv_tokens_total += step.kv_tokens_total;
  kv_tokens_distinct += step.kv_tokens_distinct;
  attention_us += step.price.predicted_us;
  held_pages_sum += step.held_pages;
  held_pages_max = std::max(held_pages_max, step.held_pages);
}

std::string cluster_to_json(const ClusterResult& result) {
  std::string lines;
  for (std::int32_t i = 0; i < result.cluster.size(); ++i) lines += dump(replica_to_json(result, i));
  return lines + dump(summary_to_json(result));
}

void print_cluster(std::ostream& out, const ClusterResult& result) {
  constexpr std::size_t kNameWidth = 100;
  const Options& options = result.options;
  const replay::SuperpositionOptions& load = options.replay.superposition;
  const replay::ReplayTotals& totals = result.totals;
  const Facts facts = facts_of(result);
  const double steps = static_cast<double>(std::max<std::int64_t>(totals.steps, 1));
  out << printable(result.trace.name, kNameWidth) << " (" << result.trace.format << "), planned for "
      << printable(result.machine, kNameWidth) << '\n'
      << load.copies << (load.copies == 1 ? " copy" : " time-shifted copies") << " of the trace, " << load.samples
      << (load.samples == 1 ? " sample" : " samples") << " of each prompt; " << result.cluster.size()
      << (result.cluster.size() == 1 ? " replica" : " replicas") << ", routed by " << options.replay.routing << '\n';
  if (!result.trace.caution.empty()) out << "Note: " << result.trace.caution << ".\n";
  out << '\n';
  Table table({"all replicas", "", "mean", "median", "99 %", "most"});
  const auto count = [&](const char* name, const std::string& value) { table.add({name, value, "", "", "", ""}); };
  const auto spread = [&](const char* name, const Spread& of, const auto& text) {
    table.add({name, "", text(of.mean), text(of.median), text(of.p99), text(of.most)});
  };
  count(result.trace.searches() ? "searches" : "requests", with_commas(facts.counts.admitted));
  count("refused", with_commas(facts.counts.refused));
  count("prompt tokens", with_commas(facts.counts.prompt_tokens));
  count("found in a prefix cache",
        percent(static_cast<double>(facts.counts.cached_tokens), static_cast<double>(facts.counts.prompt_tokens)));
  count("output tokens", with_commas(facts.counts.output_tokens));
  count("decode steps", with_commas(totals.steps));
  count("requests a step", fixed(static_cast<double>(totals.requests) / steps, 1));
  count("sharing", fixed(totals.sharing_of_all(), 3));
  count("attention, a layer of a step", human_time(totals.price.predicted_us / steps));
  count("attention, all steps and layers",
        seconds_text(totals.price.predicted_us * options.replay.loop.layers / kUsPerSecond));
  count("busy, all replicas", seconds_text(facts.busy_s));
  count("busy, the busiest over the mean", fixed(ratio(facts.most_busy_s * result.cluster.size(), facts.busy_s), 2));
  count("the replay's clock", seconds_text(facts.seconds));
  spread("in the queue", spread_of(facts.admitted_s), seconds_text);
  spread("until the first token", spread_of(facts.first_token_s), seconds_text);
  spread("KV memory of a replica, largest", spread_of(facts.held_bytes_max), human_bytes);
  spread("KV memory of a replica, mean step", spread_of(facts.held_bytes_mean), human_bytes);
  table.print(out);
}

}  // namespace trunkline::cli
