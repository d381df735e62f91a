// The only unit that includes CLI11, which costs as much compile time as the rest of the program.
#include "cli/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>
#include <string_view>

#include "base/check.hpp"
#include "cli/device_choice.hpp"
#include "cli/policies.hpp"
#include "cli/version.hpp"

namespace trunkline::cli {
namespace {

// What the command line says before it is understood: each value is checked in one place, with one form of message.
struct Words {
  std::string heads = "32/8";
  std::string dtype = "f16";
  std::string device = "auto";
  std::string policy = "auto";
  std::string policies = "all";  // compare
  std::string split = "own";
  std::string profit_cost = "memory";
  std::string greedy_phases = "on";
  std::string trunk_hoist = "device";
  std::string tile = "auto";
  std::string layout = "nhd";
  std::string machine = "measured";
  std::string mode;   // run; empty: not given, as for the next
  std::string merge;  // run
};

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
  if (options.command == Command::kCompare) {
    options.policies = parse_policies(words.policies);
  } else if (options.command == Command::kRun && words.policy == "all") {
    options.policies = packing_policies();
  } else {
    plan.policy = policy_from_name(words.policy);
  }
  plan.split = split_from_name(words.split);
  plan.policies.profit_cost = profit_cost_from_name(words.profit_cost);
  plan.policies.greedy_phases = choose<bool>("--greedy-phases", words.greedy_phases, {{"on", true}, {"off", false}});
  plan.policies.trunk_hoist = trunk_hoist_from_name(words.trunk_hoist);
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
    constexpr std::string_view kOneTile = "fixed";
    options.one_tile = words.mode == kOneTile;
    options.cuda.forward = choose<ForwardMode>("--mode", words.mode,
                                               {{name_of(ForwardMode::kPersistent), ForwardMode::kPersistent},
                                                {name_of(ForwardMode::kStreams), ForwardMode::kStreams},
                                                {name_of(ForwardMode::kSerial), ForwardMode::kSerial},
                                                {kOneTile, ForwardMode::kPersistent}});
  }
  if (options.shape.device == Device::kCuda) return;
  const char* given = !words.mode.empty()        ? "--mode"
                      : options.cuda.check_pages ? "--check-pages"
                      : !options.trace.empty()   ? "--trace"
                                                 : nullptr;
  if (given == nullptr) return;
  fail(ErrorCode::kUnsupported, given, " needs --device cuda, and this runs on cpu; supported there: --merge");
}

// The others look at the machine alone.
bool takes_batches(Command command) {
  return command != Command::kDoctor && command != Command::kTune;
}

void understand(const Words& words, Options& options) {
  parse_heads(words.heads, options.shape);
  options.shape.dtype =
      choose<DType>("--dtype", words.dtype, {{"f16", DType::kF16}, {"bf16", DType::kBF16}, {"f32", DType::kF32}});
  understand_policies(words, options);
  options.layout =
      choose<CacheLayout>("--layout", words.layout, {{"nhd", CacheLayout::kNhd}, {"hnd", CacheLayout::kHnd}});
  parse_machine(words.machine, options);
  choose_device(words.device, options);
  understand_launch(words, options);
  const bool measures = options.command == Command::kTune && options.tiles.empty();
  const Support support = takes_batches(options.command) || measures ? supports(options.shape) : Support{true, ""};
  if (!support) fail(ErrorCode::kUnsupported, support.reason);
  if (takes_batches(options.command) && options.inputs.empty() && options.trees.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "no input; give decode-batch files, or --tree NODES/TOKENS as in --tree 1,8,512/32,512,256");
  }
}

void add_device_option(CLI::App& app, Words& words) {
  app.add_option("--device", words.device, "auto (cuda where that can be used), cpu, cuda, cuda:N")
      ->capture_default_str()
      ->type_name("NAME");
}

void add_shape_options(CLI::App& app, Options& options, Words& words) {
  app.add_option("INPUT", options.inputs, "Decode-batch files: one JSON object a line");
  app.add_option("--tree", options.trees,
                 "A synthetic tree: nodes per level / tokens of each, as in 1,8,512/32,512,256")
      ->allow_extra_args(false);
  app.add_option("--draft", options.draft, "A draft tree for every request: a file of such trees, and the name of one")
      ->type_name("FILE:NAME");
  app.add_option("--limit", options.limit, "Batches to take from each file")
      ->check(CLI::Range(1, INT32_MAX))
      ->type_name("N");
  app.add_option("--heads", words.heads, "Query heads / KV heads")->capture_default_str()->type_name("HQ/HKV");
  app.add_option("--head-dim", options.shape.head_dim, "Head size: 64, 128, 256")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--dtype", words.dtype, "Element type of Q, K and V: f16, bf16, f32")
      ->capture_default_str()
      ->type_name("TYPE");
  app.add_option("--page-size", options.shape.page_size, "Tokens in a page, >= 1")
      ->capture_default_str()
      ->type_name("N");
  add_device_option(app, words);
  app.add_option("--machine", words.machine,
                 "Where planning's machine facts come from: measured, generic, or a profile's file")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--seed", options.seed, "Seed of page ids and tensors")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{0}, INT64_MAX))
      ->type_name("N");
}

void add_policy_options(CLI::App& app, Options& options, Words& words) {
  PolicyOptions& policies = options.plan.policies;
  app.add_option("--split", words.split,
                 "How long packs are cut along KV: own (the policy's way), balance, mean, long, none")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--tile", words.tile, "Tile of all items: auto, or rows x tokens, as in 64x128")
      ->capture_default_str()
      ->type_name("MxN");
  app.add_option("--node-chunk", policies.node_chunk, "node: tokens of a chunk; 0: whole nodes")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--profit-cost", words.profit_cost, "profit: memory (PAT), compute (FastTree's costs)")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--greedy-phases", words.greedy_phases, "greedy: small tiles for nodes of few queries: on, off")
      ->capture_default_str()
      ->type_name("on|off");
  app.add_option("--flatten-block", policies.flatten_block, "flatten: tokens of a block")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--trunk-rows", policies.trunk_rows, "trunk: rows of a tile; 0: by the cost model")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--trunk-hoist", words.trunk_hoist, "trunk: prefixes into items of their own: device, cost, never")
      ->capture_default_str()
      ->type_name("NAME");
}

void add_policy_choice(CLI::App& run, CLI::App& plan, CLI::App& compare, Words& words) {
  run.add_option("--policy", words.policy,
                 "How the batch is packed: " + policy_names() + "; all: each in turn, beside auto's pick")
      ->capture_default_str()
      ->type_name("NAME");
  plan.add_option("--policy", words.policy, "How the batch is packed: " + policy_names())
      ->capture_default_str()
      ->type_name("NAME");
  compare.add_option("--policy", words.policies, "all, or some of " + policy_names() + ", with commas between them")
      ->capture_default_str()
      ->type_name("NAMES");
}

void add_common_options(CLI::App& app, Options& options) {
  app.add_option("--threads", options.threads, "Threads; without it, every core that this process may use")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_flag("--json", options.json, "JSON lines on standard output, and nothing else there");
}

void add_run_options(CLI::App& app, Options& options, Words& words) {
  app.add_option("--layout", words.layout, "Order of the KV cache: nhd, hnd")->capture_default_str()->type_name("NAME");
  app.add_option("--repeat", options.repeat, "Timed runs of each policy")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  app.add_flag("--warm", options.warm,
               "Leave the caches as they are between timed runs; normally each run starts cold");
  app.add_flag("--check", options.check, "Check the outputs against plain attention in fp64");
  app.add_option("--mode", words.mode,
                 "cuda: how items are launched: persistent (unless given), streams, serial, fixed (one tile for all)")
      ->type_name("NAME");
  app.add_option("--merge", words.merge,
                 "How partials become outputs: fused (unless given, on the CPU), separate (unless given, on cuda)")
      ->type_name("NAME");
  app.add_flag("--check-pages", options.cuda.check_pages, "cuda: check all page ids on the device at each resolve");
  app.add_option("--trace", options.trace, "cuda: write when and where each task ran, as a Chrome trace")
      ->type_name("FILE");
}

void add_tune_options(CLI::App& app, Options& options) {
  CLI::Option* out = app.add_option("--out", options.out, "Write the profile to this file")->type_name("FILE");
  app.add_option("--tiles", options.tiles,
                 "Instead of measuring: the tiles that the limits of this GPU's profile allow, beside PAT's")
      ->allow_extra_args(false)
      ->excludes(out)
      ->type_name("FILE");
}

}  // namespace

std::optional<Options> parse_command_line(int argc, const char* const* argv) {
  Options options;
  Words words;
  CLI::App app("Prefix-aware decode attention: reads each shared part of a batch's KV cache once.", "trunkline");
  app.set_version_flag("--version", std::string("trunkline ") + version() + " (" + commit() + ")");

  CLI::App* run =
      app.add_subcommand("run", "Run decode attention over batches; compare a policy with one request at a time");
  CLI::App* plan = app.add_subcommand("plan", "Explain a batch: its prefix forest, and what each policy makes of it");
  CLI::App* compare = app.add_subcommand("compare", "The plans of all policies side by side, with geometric means");
  CLI::App* doctor = app.add_subcommand("doctor", "What this machine has, and what will be used");
  for (CLI::App* command : {run, plan, compare}) add_shape_options(*command, options, words);
  for (CLI::App* command : {run, plan, compare}) add_policy_options(*command, options, words);
  add_policy_choice(*run, *plan, *compare, words);
  CLI::App* tune = app.add_subcommand("tune", "Measure this machine and write its profile; derive a GPU's tiles");
  for (CLI::App* command : {run, plan, compare, tune, doctor}) add_common_options(*command, options);
  add_device_option(*tune, words);
  add_tune_options(*tune, options);
  add_run_options(*run, options, words);
  plan->add_flag("--all", options.all, "Print every node and item, however many");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      app.exit(error, std::cout, std::cerr);  // --help or --version
      return std::nullopt;
    }
    fail(ErrorCode::kInvalidArgument, error.what());
  }
  if (app.get_subcommands().empty()) {
    fail(ErrorCode::kInvalidArgument,
         "no command; give run, plan, compare, tune or doctor (trunkline --help explains them)");
  }
  options.command = run->parsed()       ? Command::kRun
                    : plan->parsed()    ? Command::kPlan
                    : compare->parsed() ? Command::kCompare
                    : tune->parsed()    ? Command::kTune
                                        : Command::kDoctor;
  understand(words, options);
  return options;
}

}  // namespace trunkline::cli
