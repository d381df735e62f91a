// Decode attention on a GPU: every case is checked against plain attention first, then timed with cold caches. Prints
// one JSON object a case, with the floor, and the recorded time of each published kernel where a file of them is given.
//
//     gpu_bench [--data data] [--recorded FILE] [--policy NAME] [--mode NAME] [--tile MxN] [--heads HQ/HKV]
//               [--repeat N] [--threads N] SUITE... > rows.jsonl
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/cuda/device.hpp"
#include "cli/cuda/tensors.hpp"
#include "cli/measure.hpp"
#include "cli/oracle_check.hpp"
#include "cli/version.hpp"
#include "gpu/cases.hpp"
#include "kv/paged_batch.hpp"
#include "kv/synthetic_cache.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::gpu_bench {
namespace {

using Json = nlohmann::ordered_json;

// P has 16 bits before it meets V, so outputs of normal values are off by up to some 1e-3.
constexpr cli::OracleError kTolerance{5e-3, 1e-3};
// Tensors beyond this take longer to make and copy than they are worth.
constexpr std::int64_t kMaxCacheBytes = std::int64_t{9} << 30;

struct Options {
  std::vector<std::string> suites;
  std::string data = "data";
  std::string recorded;
  std::string heads;
  PlanOptions plan;
  CudaOptions cuda;
  int repeat = 25;
  int threads = 8;
};

struct Machine {
  ThreadPool workers;
  CudaDeviceInfo device;
  MachineProfile profile;
  CudaExecutor executor;
  Planner planner;
  cli::Stream stream;
  cli::ColdTimer timer;

  explicit Machine(const Options& options)
      : workers(options.threads),
        device(cuda_device_info(options.cuda.device)),
        profile(cuda_profile(options.cuda.device)),
        executor(options.cuda),
        planner(profile) {}
};

/// As the recorded figures have it: launch is the intercept of the cold streaming read.
double floor_us(const PlanStatistics& statistics) {
  constexpr double kLaunchUs = 5.8;
  constexpr double kBytesPerUs = 4.67e6;
  constexpr double kFlopsPerUs = 790e6;
  const auto bytes = static_cast<double>(statistics.kv_bytes_distinct + statistics.qo_bytes);
  return kLaunchUs + std::max(bytes / kBytesPerUs, statistics.flops / kFlopsPerUs);
}

using Recorded = std::map<std::string, Json>;

std::string key_of(const std::string& suite, const std::string& name, const std::string& heads, std::int32_t page) {
  return concat(suite, "|", name, "|", heads, "|", page);
}

Recorded load_recorded(const std::string& path) {
  Recorded recorded;
  if (path.empty()) return recorded;
  std::ifstream file(path);
  if (!file) fail(ErrorCode::kIo, path, ": cannot be opened");
  const Json listed = Json::parse(file);
  for (const Json& row : listed.at("rows")) {
    if (row.at("dtype") != "f16") continue;
    const std::string key = key_of(row.at("suite"), row.at("case"), row.at("heads"), row.at("page_size"));
    recorded[key][row.at("kernel").get<std::string>()] = row.at("us");
  }
  return recorded;
}

double time_plan(Machine& machine, const Forest& forest, const Case& test, const Options& options) {
  std::vector<double> us;
  for (int i = 0; i < 15; ++i)
    us.push_back(cli::time_us([&] { machine.planner.plan(forest, test.shape, options.plan); }));
  return cli::summarize(us).us;
}

Json run_case(Machine& machine, const Case& test, const Options& options, const Recorded& recorded) {
  const PagedBatch paged = lay_out_pages(test.tree, test.shape.page_size, 1);
  const Batch batch = paged.view();
  const Forest forest = build_forest(batch);
  const SyntheticCache cache(test.shape, batch, forest, {}, machine.workers);
  const cli::DeviceTensors tensors(cache.args(), test.shape, paged);
  const double plan_us = time_plan(machine, forest, test, options);
  const Plan plan = machine.planner.plan(forest, test.shape, options.plan);

  const cli::DeviceWorkspace workspace(machine.executor, plan);
  const auto resolve = [&](cudaStream_t stream) {
    machine.executor.resolve(tensors.batch(), workspace.data(), stream);
  };
  const auto run = [&](cudaStream_t stream) { machine.executor.run(tensors.args(), workspace.data(), stream); };
  machine.executor.upload(plan, batch, workspace.data(), workspace.bytes(), machine.stream.get());
  resolve(machine.stream.get());
  run(machine.stream.get());
  cli::check(cudaStreamSynchronize(machine.stream.get()), "attention");
  tensors.download(cache.args());
  const cli::Oracle oracle(test.shape, batch, cache.args());
  const cli::OracleError error = oracle.compare(cache.args());

  const PlanStatistics& statistics = plan.statistics;
  Json row = {
      {"suite", test.suite},
      {"case", test.name},
      {"heads", test.heads()},
      {"dtype", name_of(test.shape.dtype)},
      {"page_size", test.shape.page_size},
      {"policy", name_of(options.plan.policy)},
      {"chosen", name_of(plan.policy)},
      {"mode", name_of(options.cuda.forward)},
      {"tile", options.plan.tile == TileShape{} ? "auto" : concat(options.plan.tile.m, "x", options.plan.tile.n)},
      {"items", plan.items.size()},
      {"partials", plan.partials},
      {"max_err", error.output},
      {"max_lse_err", error.lse},
      {"checked_requests", oracle.rows()},
      {"passed", cli::within(error, kTolerance)}};
  if (!cli::within(error, kTolerance)) return row;  // a wrong case gets no time

  const cli::Timing timing = cli::summarize(machine.timer.replay(machine.stream, options.repeat, run));
  row["us"] = timing.us;
  row["us_p10"] = timing.us_p10;
  row["us_p90"] = timing.us_p90;
  row["floor_us"] = floor_us(statistics);
  row["x_floor"] = timing.us / floor_us(statistics);
  row["resolve_us"] = cli::summarize(machine.timer.replay(machine.stream, options.repeat, resolve)).us;
  row["plan_us"] = plan_us;
  row["predicted_us"] = statistics.predicted_us;
  row["kv_bytes_distinct"] = statistics.kv_bytes_distinct;
  row["kv_bytes_read"] = statistics.kv_bytes_read;
  row["partial_bytes"] = statistics.partial_bytes;
  row["workspace_bytes"] = workspace.bytes();
  const auto found = recorded.find(key_of(test.suite, test.name, test.heads(), test.shape.page_size));
  if (found != recorded.end()) row["recorded_us"] = found->second;
  row["device"] = machine.device.name;
  row["driver"] = machine.device.driver_version;
  row["commit"] = cli::commit();
  return row;
}

TileShape parse_tile(const std::string& text) {
  const std::size_t cross = text.find('x');
  if (cross == std::string::npos) fail(ErrorCode::kInvalidArgument, "--tile is '", text, "'; it must be MxN");
  return {std::stoi(text.substr(0, cross)), std::stoi(text.substr(cross + 1))};
}

Options parse(std::span<char*> words) {
  Options options;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i];
    if (word.rfind("--", 0) != 0) {
      options.suites.push_back(word);
      continue;
    }
    if (i + 1 == words.size()) fail(ErrorCode::kInvalidArgument, word, " needs a value");
    const std::string value = words[++i];
    if (word == "--data") {
      options.data = value;
    } else if (word == "--recorded") {
      options.recorded = value;
    } else if (word == "--heads") {
      options.heads = value;
    } else if (word == "--policy") {
      options.plan.policy = policy_from_name(value);
    } else if (word == "--split") {
      options.plan.split = split_from_name(value);
    } else if (word == "--mode") {
      options.cuda.forward = forward_mode_from_name(value);
    } else if (word == "--tile") {
      options.plan.tile = parse_tile(value);
    } else if (word == "--repeat") {
      options.repeat = std::stoi(value);
    } else if (word == "--threads") {
      options.threads = std::stoi(value);
    } else {
      fail(ErrorCode::kInvalidArgument, "unknown option ", word);
    }
  }
  return options;
}

int run_all(const Options& options) {
  const Recorded recorded = load_recorded(options.recorded);
  Machine machine(options);
  bool wrong = false;
  for (const std::string& suite : options.suites) {
    for (const Case& test : load_suite(suite, options.data)) {
      if (!options.heads.empty() && test.heads() != options.heads) continue;
      const PagedBatchSize size = paged_batch_size(test.tree, test.shape.page_size);
      if (synthetic_cache_bytes(test.shape, size.num_pages, size.rows) > kMaxCacheBytes) continue;
      const Json row = run_case(machine, test, options, recorded);
      wrong = wrong || !row.at("passed").get<bool>();
      std::cout << row.dump() << std::endl;
    }
  }
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace trunkline::gpu_bench

int main(int argc, char** argv) {
  try {
    return trunkline::gpu_bench::run_all(trunkline::gpu_bench::parse(std::span(argv, static_cast<std::size_t>(argc))));
  } catch (const std::exception& error) {
    std::cerr << "gpu_bench: error: " << error.what() << '\n';
    return 2;
  }
}
