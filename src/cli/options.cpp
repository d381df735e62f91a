// The only unit that includes CLI11, which costs as much compile time as the rest of the program.
#include "cli/options.hpp"

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/check.hpp"
#include "cli/option_words.hpp"
#include "cli/policies.hpp"
#include "cli/version.hpp"

namespace trunkline::cli {
namespace {

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
  app.add_option("--kernels", words.kernels, "cuda: auto (hopper where it runs), portable (mma.sync), hopper (wgmma)")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_flag("--check-pages", options.cuda.check_pages, "cuda: check all page ids on the device at each resolve");
  app.add_option("--trace", options.trace, "cuda: write when and where each task ran, as a Chrome trace")
      ->type_name("FILE");
}

void add_plan_options(CLI::App& app, Options& options) {
  app.add_flag("--all", options.all, "Print every node and item, however many");
  app.add_option("--batch", options.batch, "Take only this batch, counted from 1 over all inputs")
      ->check(CLI::Range(1, INT32_MAX))
      ->type_name("N");
  CLI::Option* html =
      app.add_option("--html", options.html, "Write a page that shows the batch and its plans")->type_name("FILE");
  app.add_option("--trace", options.trace, "A file of `run --trace`: the page shows the run beside the prediction")
      ->needs(html)
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
  add_plan_options(*plan, options);

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
