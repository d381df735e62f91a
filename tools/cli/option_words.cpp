#include "cli/option_words.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "cli/device_choice.hpp"
#include "cli/policies.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::cli {
namespace {

[[noreturn]] void fail_option(std::string_view option, std::string_view value, std::string_view supported) {
  fail(ErrorCode::kInvalidArgument, option, " is \"", value, "\"; supported: ", supported);
}

template <class Value>
struct Choice {
  std::string_view name;
  Value value;
};

template <class Value, std::size_t count>
Value choose(std::string_view option, std::string_view given, const Choice<Value> (&choices)[count]) {
  std::string names;
  for (const Choice<Value>& choice : choices) {
    if (choice.name == given) return choice.value;
    names += (names.empty() ? "" : ", ") + std::string(choice.name);
  }
  fail_option(option, given, names);
}

std::int32_t parse_count(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

void parse_heads(const std::string& heads, AttentionShape& shape) {
  const std::size_t slash = heads.find('/');
  shape.q_heads = parse_count(std::string_view(heads).substr(0, slash));
  shape.kv_heads = slash == std::string::npos ? 0 : parse_count(std::string_view(heads).substr(slash + 1));
  if (shape.q_heads < 1 || shape.kv_heads < 1) {
    fail_option("--heads", heads, "query heads / KV heads, both >= 1, as in 32/8");
  }
}

TileShape parse_tile(const std::string& tile) {
  if (tile == "auto") return {};
  const std::size_t cross = tile.find('x');
  const TileShape shape{parse_count(std::string_view(tile).substr(0, cross)),
                        cross == std::string::npos ? 0 : parse_count(std::string_view(tile).substr(cross + 1))};
  if (shape.m < 1 || shape.n < 1)
    fail_option("--tile", tile, "auto, or rows x tokens of one of the machine's, as in 64x128");
  return shape;
}

// "all", or names with commas between them; each once, without `auto`, in the table's order.
std::vector<Policy> parse_policies(std::string_view list) {
  const std::vector<Policy> all = packing_policies();
  if (list == "all") return all;
  std::vector<Policy> named;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    named.push_back(policy_from_name(list.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  std::vector<Policy> result;
  for (const Policy policy : all) {
    if (std::find(named.begin(), named.end(), policy) != named.end()) result.push_back(policy);
  }
  if (result.empty()) fail_option("--policy", list, "all, or policies besides auto, which is always shown");
  return result;
}

void understand_policies(const Words& words, Options& options) {
  PlanOptions& plan = options.plan;
  if (options.command == Command::kCompare || options.command == Command::kReplay) {
    options.policies = parse_policies(words.policies);
  }
  if (options.command == Command::kCompare) {
    // All of them, and what auto picks.
  } else if (options.command == Command::kRun && words.policy == "all") {
    options.policies = packing_policies();
  } else {
    plan.policy = policy_from_name(words.policy);
  }
  plan.split = split_from_name(words.split);
  plan.policies.study = std::make_shared<experimental::PolicyStudy>(experimental::PolicyStudy{
      .profit_cost = experimental::profit_cost_from_name(words.profit_cost),
      .greedy_phases = choose<bool>("--greedy-phases", words.greedy_phases, {{"on", true}, {"off", false}}),
      .trunk_hoist = experimental::trunk_hoist_from_name(words.trunk_hoist)});
  plan.tile = parse_tile(words.tile);
}

void parse_machine(const std::string& machine, Options& options) {
  const bool file = machine.find('/') != std::string::npos || machine.find(".json") != std::string::npos;
  if (file) {
    options.profile = ProfileSource::kFile;
    options.profile_file = machine;
  } else if (machine == "measured" || machine == "generic") {
    options.profile = machine == "measured" ? ProfileSource::kMeasured : ProfileSource::kGeneric;
  } else {
    fail_option("--machine", machine, "measured, generic, or a profile's file, as in data/machines/h200-sxm.json");
  }
}

// How `run` launches and merges; shape.device is known.
void understand_launch(const Words& words, Options& options) {
  if (!words.merge.empty()) {
    options.merge = choose<MergeMode>(
        "--merge", words.merge,
        {{name_of(MergeMode::kFused), MergeMode::kFused}, {name_of(MergeMode::kSeparate), MergeMode::kSeparate}});
  }
  if (!words.mode.empty()) {
    using experimental::ForwardMode;
    constexpr std::string_view kOneTile = "fixed";
    options.one_tile = words.mode == kOneTile;
    options.forward = choose<ForwardMode>("--mode", words.mode,
                                          {{name_of(ForwardMode::kPersistent), ForwardMode::kPersistent},
                                           {name_of(ForwardMode::kStreams), ForwardMode::kStreams},
                                           {name_of(ForwardMode::kSerial), ForwardMode::kSerial},
                                           {kOneTile, ForwardMode::kPersistent}});
  }
  options.cuda.kernels = cuda_kernels_from_name(words.kernels);
  options.plan_on_device = choose<bool>("--planner", words.run_planner, {{"host", false}, {"device", true}});
  const Policy policy = options.plan.policy;
  const bool planned_there = options.policies.empty() && (policy == Policy::kTrunk || policy == Policy::kInvariant);
  if (options.plan_on_device && !planned_there) {
    fail(ErrorCode::kUnsupported, "--planner device needs --policy trunk or --policy invariant");
  }
  if (options.shape.device == Device::kCuda) return;
  const char* given = words.kernels != "auto"                                      ? "--kernels"
                      : !words.mode.empty()                                        ? "--mode"
                      : options.plan_on_device                                     ? "--planner device"
                      : options.cuda.check_pages                                   ? "--check-pages"
                      : !options.trace.empty() && options.command == Command::kRun ? "--trace"
                                                                                   : nullptr;
  if (given == nullptr) return;
  fail(ErrorCode::kUnsupported, given, " needs --device cuda, and this runs on cpu; supported there: --merge");
}

void check_variant(const Options& options) {
  if (options.variant.window_left < 0 || options.shape.device == Device::kCpu) return;
  fail(ErrorCode::kUnsupported, "--window-left needs --device cpu, and this runs on cuda");
}

void understand_replay(const Words& words, Options& options) {
  replay::ReplayOptions& loop = options.replay.loop;
  loop.async = choose<bool>("--planner", words.planner, {{"async", true}, {"sync", false}});
  loop.shape = options.shape;
  loop.plan.plan = options.plan;
  loop.policies = options.policies;
  options.replay.arrivals.seed = static_cast<std::uint64_t>(options.seed);
  loop.scheduler.seed = static_cast<std::uint64_t>(options.seed);
  if (options.replay.pat_style && !options.replay.arrivals.rate && options.replay.arrivals.side_by_side == 0) {
    constexpr double kPatRate = 8;  // its benchmark draws 4 to 11 a second
    options.replay.arrivals.rate = kPatRate;
  }
}

// The other commands examine the machine alone.
bool takes_batches(Command command) {
  return command != Command::kDoctor && command != Command::kTune;
}

}  // namespace

void understand(const Words& words, Options& options) {
  parse_heads(words.heads, options.shape);
  options.shape.head_dim_v = options.shape.head_dim_qk;
  options.shape.q_dtype = options.shape.kv_dtype =
      choose<DType>("--dtype", words.dtype, {{"f16", DType::kF16}, {"bf16", DType::kBF16}, {"f32", DType::kF32}});
  if (!words.kv_dtype.empty()) {
    options.shape.kv_dtype = choose<DType>("--kv-dtype", words.kv_dtype,
                                           {{name_of(options.shape.q_dtype), options.shape.q_dtype},
                                            {name_of(DType::kF8E4M3), DType::kF8E4M3},
                                            {name_of(DType::kF8E5M2), DType::kF8E5M2}});
  }
  understand_policies(words, options);
  options.layout =
      choose<CacheLayout>("--layout", words.layout, {{"nhd", CacheLayout::kNhd}, {"hnd", CacheLayout::kHnd}});
  parse_machine(words.machine, options);
  choose_device(words.device, options);
  understand_launch(words, options);
  check_variant(options);
  if (options.command == Command::kReplay) understand_replay(words, options);
  const bool measures = options.command == Command::kTune && options.tiles.empty();
  const Support support = takes_batches(options.command) || measures ? supports(options.shape) : Support{true, ""};
  if (!support) fail(ErrorCode::kUnsupported, support.reason);
  if (takes_batches(options.command) && options.inputs.empty() && options.trees.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "no input; give decode-batch files, or --tree NODES/TOKENS as in --tree 1,8,512/32,512,256");
  }
}

}  // namespace trunkline::cli
