#include "cli/run_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/check.hpp"
#include "cli/policies.hpp"
#include "cli/text.hpp"
#include "cli/version.hpp"

namespace trunkline::cli {
namespace {

std::string heads_of(const AttentionShape& shape) {
  return concat(shape.q_heads, "/", shape.kv_heads);
}
const char* caches_of(const Options& options) {
  return options.warm ? "warm" : "cold";
}
bool on_cuda(const Options& options) {
  return options.shape.device == Device::kCuda;
}

// What distinguishes a run from plain attention over a cache of Q's type.
std::string variant_of(const Options& options) {
  std::string text;
  if (options.shape.kv_dtype != options.shape.q_dtype) text += concat(" over ", name_of(options.shape.kv_dtype));
  if (options.variant.window_left >= 0)
    text += concat(", windows of ", std::int64_t{options.variant.window_left} + 1, " tokens");
  if (options.variant.soft_cap > 0) text += concat(", soft cap ", options.variant.soft_cap);
  if (options.variant.sinks) text += ", sinks";
  return text;
}

constexpr std::size_t kNameWidth = 40;

std::string name_of_batch(const RunResult& result) {
  return printable(result.suite + ":" + result.label, kNameWidth);
}

void print_machine(std::ostream& out, const RunSetting& setting, const std::vector<RunResult>& results) {
  MachineRates best;
  for (const RunResult& result : results) {
    best.read_bytes_per_us = std::max(best.read_bytes_per_us, result.rates.read_bytes_per_us);
    best.flops_per_us = std::max(best.flops_per_us, result.rates.flops_per_us);
  }
  const RunDevice& device = setting.device;
  if (device.mode) {
    out << device.place << ", " << device.name << ", " << *device.mode << " launches, " << device.merge
        << " merge; profile " << printable(setting.machine, kNameWidth) << ": reads at "
        << fixed(best.read_bytes_per_us / 1e6, 2) << " TB/s, " << fixed(best.flops_per_us / 1e6, 0)
        << " TFLOP/s in 16 bits\n\n";
  } else {
    out << device.name << ", " << setting.threads << " threads, " << device.isa
        << " kernels; measured beside the batches: reads up to " << fixed(best.read_bytes_per_us / 1e3, 1) << " GB/s, "
        << fixed(best.flops_per_us / 1e3, 1) << " GFLOP/s in fp32\n\n";
  }
}

void print_reads(std::ostream& out, const Options& options, const std::vector<RunResult>& results) {
  out << "KV tokens that are read, by a kernel that takes one request at a time, and by each policy;\n"
         "\"distinct\" is the least that any kernel can read.\n\n";
  std::vector<std::string> header = {"batch", "from", "requests", "one at a time", "distinct"};
  for (const Policy policy : packing_policies()) header.emplace_back(name_of(policy));
  if (options.plan.policy == Policy::kAuto) header.emplace_back("auto");
  constexpr std::size_t kSourceWidth = 50;
  Table table(std::move(header), 2);
  for (const RunResult& result : results) {
    std::vector<std::string> row = {name_of_batch(result), printable(result.source, kSourceWidth),
                                    std::to_string(result.requests), with_commas(result.statistics.kv_tokens_total),
                                    with_commas(result.statistics.kv_tokens_distinct)};
    for (const auto& tokens : result.tokens_read) row.push_back(tokens ? with_commas(*tokens) : "-");
    if (options.plan.policy == Policy::kAuto) row.push_back(with_commas(result.statistics.kv_tokens_read));
    table.add(std::move(row));
  }
  table.print(out);
}

void explain_times(std::ostream& out, const Options& options) {
  out << "\nTime of one layer (median of " << options.repeat << ")";
  if (on_cuda(options)) {
    out << "; \"floor\" is the profile's bound: the larger of distinct KV, Q and O\n"
           "bytes / bandwidth and FLOPs / matrix rate, and the launch; \"planning\" is forest and plan, once for all\n"
           "layers of a step, \"upload\" what takes a new plan to the device, \"resolve\" what each step does there;\n";
  } else {
    out << "; \"floor\" is the larger of distinct KV bytes / measured\n"
           "bandwidth and FLOPs / measured FMA rate; \"planning\" is forest and plan, once for all layers of a step;\n";
  }
  out << "memory beyond tensors is the plan and the workspace, of which \"partials\" are un-merged outputs.\n";
  if (!options.trace.empty()) {
    out << "\"bubbles\": share of the workers' time without a task, in one more run, which " << options.trace
        << " shows.\n";
  }
  out << '\n';
}

std::vector<std::string> times_header(const Options& options) {
  std::vector<std::string> header = {"batch", "flat", name_of(options.plan.policy)};
  if (options.plan.policy == Policy::kAuto) header.emplace_back("chose");
  for (const char* name : {"speed-up", "floor", "x floor", "planning"}) header.emplace_back(name);
  if (on_cuda(options)) header.insert(header.end(), {"upload", "resolve"});
  for (const char* name : {"plan", "workspace", "partials"}) header.emplace_back(name);
  if (!options.trace.empty()) header.emplace_back("bubbles");
  if (options.check) header.emplace_back("largest error");
  return header;
}

std::vector<std::string> times_row(const Options& options, const RunResult& result) {
  std::vector<std::string> row = {name_of_batch(result), human_time(result.flat.us), human_time(result.policy.us)};
  if (options.plan.policy == Policy::kAuto) row.emplace_back(name_of(result.chosen));
  row.push_back(fixed(result.speed_up(), 2) + "x");
  row.push_back(human_time(result.floor_us));
  row.push_back(fixed(result.policy.us / result.floor_us, 2));
  row.push_back(human_time(result.forest_us + result.plan_us));
  if (on_cuda(options)) {
    row.push_back(result.upload_us ? human_time(*result.upload_us) : "-");
    row.push_back(human_time(result.resolve_us));
  }
  row.push_back(human_bytes(static_cast<double>(result.plan_bytes)));
  row.push_back(human_bytes(static_cast<double>(result.workspace_bytes)));
  // The statistics count partials as traffic: written once and read once.
  row.push_back(human_bytes(static_cast<double>(result.statistics.partial_bytes) / 2));
  if (result.bubble_share) row.push_back(fixed(*result.bubble_share * 100, 1) + " %");
  if (result.check) row.push_back(scientific(result.check->error.output) + (result.check->passed ? "" : " WRONG"));
  return row;
}

void print_times(std::ostream& out, const Options& options, const std::vector<RunResult>& results) {
  explain_times(out, options);
  Table table(times_header(options));
  for (const RunResult& result : results) table.add(times_row(options, result));
  table.print(out);
}

void print_policy_times(std::ostream& out, const Options& options, const std::vector<RunResult>& results) {
  out << "\nTime of one layer by each policy (medians, taken in turn); \"regret\" is auto's time over the least.\n\n";
  std::vector<std::string> header = {"batch"};
  for (const Policy policy : options.policies) header.emplace_back(name_of(policy));
  header.insert(header.end(), {"auto chose", "regret"});
  Table table(std::move(header));
  for (const RunResult& result : results) {
    std::vector<std::string> row = {name_of_batch(result)};
    for (const PolicyTime& time : result.times) row.push_back(human_time(time.timing.us));
    row.emplace_back(name_of(result.chosen));
    row.push_back(fixed(result.regret(), 3));
    table.add(std::move(row));
  }
  table.print(out);
}

void print_checks(std::ostream& out, const OracleError& tolerance, const std::vector<RunResult>& results) {
  const auto wrong = std::count_if(results.begin(), results.end(), [](const RunResult& r) { return !r.check->passed; });
  out << "\nChecked against plain attention in fp64 (outputs within " << scientific(tolerance.output)
      << ", log-sum-exp within " << scientific(tolerance.lse)
      << "): " << results.size() - static_cast<std::size_t>(wrong) << " of " << results.size()
      << " batches are right.\n";
  for (const RunResult& result : results) {
    if (result.check->rows < result.requests) {
      out << "  " << name_of_batch(result) << ": " << result.check->rows << " of " << result.requests
          << " requests, chosen at random, were compared\n";
    }
  }
}

using Json = nlohmann::ordered_json;

void add_case(const RunSetting& setting, const RunResult& result, Json& row) {
  const Options& options = setting.options;
  row["suite"] = result.suite;
  row["case"] = result.label;
  row["source"] = result.source;
  row["heads"] = heads_of(options.shape);
  row["head_dim"] = options.shape.head_dim_qk;
  row["dtype"] = name_of(options.shape.q_dtype);
  row["kv_dtype"] = name_of(options.shape.kv_dtype);
  row["window_left"] = options.variant.window_left;
  row["soft_cap"] = options.variant.soft_cap;
  row["sinks"] = options.variant.sinks;
  row["page_size"] = options.shape.page_size;
  row["layout"] = options.layout == CacheLayout::kNhd ? "nhd" : "hnd";
  row["policy"] = options.policies.empty() ? name_of(options.plan.policy) : "all";
  row["chosen"] = name_of(result.chosen);
  row["caches"] = caches_of(options);
  row["mode"] = nullptr;
  if (setting.device.mode) row["mode"] = *setting.device.mode;
  row["merge"] = setting.device.merge;
}

void add_times(const RunResult& result, Json& row) {
  row["us"] = result.policy.us;
  row["us_p10"] = result.policy.us_p10;
  row["us_p90"] = result.policy.us_p90;
  row["flat_us"] = result.flat.us;
  row["flat_us_p10"] = result.flat.us_p10;
  row["flat_us_p90"] = result.flat.us_p90;
  row["speed_up"] = result.speed_up();
  for (const PolicyTime& time : result.times) row["us_by"][name_of(time.policy)] = time.timing.us;
  if (!result.times.empty()) row["regret"] = result.regret();
  row["floor_us"] = result.floor_us;
  row["forest_us"] = result.forest_us;
  row["plan_us"] = result.plan_us;
  row["upload_us"] = nullptr;
  if (result.upload_us) row["upload_us"] = *result.upload_us;
  row["resolve_us"] = result.resolve_us;
  row["bubble_share"] = nullptr;
  if (result.bubble_share) row["bubble_share"] = *result.bubble_share;
}

void add_plan(const RunResult& result, Json& row) {
  row["predicted_us"] = result.statistics.predicted_us;
  row["requests"] = result.requests;
  row["kv_tokens_total"] = result.statistics.kv_tokens_total;
  row["kv_tokens_distinct"] = result.statistics.kv_tokens_distinct;
  row["kv_tokens_read"] = result.statistics.kv_tokens_read;
  const std::vector<Policy> policies = packing_policies();
  for (std::size_t i = 0; i < policies.size(); ++i) {
    if (result.tokens_read[i]) row["kv_tokens_read_by"][name_of(policies[i])] = *result.tokens_read[i];
  }
  row["kv_bytes_distinct"] = result.statistics.kv_bytes_distinct;
  row["partials"] = result.statistics.partials;
  row["partial_bytes"] = result.statistics.partial_bytes;
  row["plan_bytes"] = result.plan_bytes;
  row["workspace_bytes"] = result.workspace_bytes;
}

void add_check(const RunResult& result, Json& row) {
  row["max_err"] = nullptr;
  row["max_lse_err"] = nullptr;
  row["checked_requests"] = 0;
  row["passed"] = nullptr;
  if (result.check) {
    row["max_err"] = result.check->error.output;
    row["max_lse_err"] = result.check->error.lse;
    row["checked_requests"] = result.check->rows;
    row["passed"] = result.check->passed;
  }
}

void add_machine(const RunSetting& setting, const RunResult& result, Json& row) {
  const Options& options = setting.options;
  row["repeat"] = options.repeat;
  row["seed"] = options.seed;
  row["threads"] = setting.threads;
  row["isa"] = setting.device.isa;
  row["machine"] = setting.machine;
  row["read_bytes_per_us"] = result.rates.read_bytes_per_us;
  row["flops_per_us"] = result.rates.flops_per_us;
  row["place"] = setting.device.place;
  row["device"] = setting.device.name;
  row["commit"] = commit();
}

}  // namespace

double RunResult::regret() const {
  double fastest = policy.us;
  for (const PolicyTime& time : times) fastest = std::min(fastest, time.timing.us);
  return policy.us / fastest;
}

void print_run_tables(std::ostream& out, const RunSetting& setting, const std::vector<RunResult>& results) {
  const Options& options = setting.options;
  const AttentionShape& shape = options.shape;
  out << "Decode attention: " << heads_of(shape) << " heads of " << shape.head_dim_qk << ", " << name_of(shape.q_dtype)
      << variant_of(options) << ", pages of " << shape.page_size << ", caches " << caches_of(options)
      << " before each run\n";
  print_machine(out, setting, results);
  print_reads(out, options, results);
  print_times(out, options, results);
  if (!options.policies.empty()) print_policy_times(out, options, results);
  if (options.check) print_checks(out, setting.device.tolerance, results);
}

std::string run_to_json(const RunSetting& setting, const RunResult& result) {
  Json row;
  add_case(setting, result, row);
  add_times(result, row);
  add_plan(result, row);
  add_check(result, row);
  add_machine(setting, result, row);
  return row.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trunkline::cli
