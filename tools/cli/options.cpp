// The only unit that includes CLI11, which costs as much compile time as the rest of the program.
#include "cli/options.hpp"

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/check.hpp"
#include "cli/option_words.hpp"
#include "cli/policies.hpp"
#include "cli/version.hpp"
#include "replay/formats/format_table.hpp"
#include "replay/routing/routing_table.hpp"

namespace trunkline::cli {
namespace {

void add_device_option(CLI::App& app, Words& words) {
  app.add_option("--device", words.device, "auto (cuda where that can be used), cpu, cuda, cuda:N")
      ->capture_default_str()
      ->type_name("NAME");
}

void add_inputs(CLI::App& app, Options& options) {
  app.add_option("INPUT", options.inputs, "Decode-batch files: one JSON object a line");
  app.add_option("--tree", options.trees,
                 "A synthetic tree: nodes per level / tokens of each, as in 1,8,512/32,512,256")
      ->allow_extra_args(false);
  app.add_option("--draft", options.draft, "A draft tree for every request: a file of such trees, and the name of one")
      ->type_name("FILE:NAME");
  app.add_option("--limit", options.limit, "Batches to take from each file")
      ->check(CLI::Range(1, INT32_MAX))
      ->type_name("N");
}

void add_shape_options(CLI::App& app, Options& options, Words& words) {
  app.add_option("--heads", words.heads, "Query heads / KV heads")->capture_default_str()->type_name("HQ/HKV");
  app.add_option("--head-dim", options.shape.head_dim_qk, "Head size: 64, 128, 256")
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
  app.add_option("--invariant-chunk", policies.invariant_chunk, "invariant: tokens of a chunk")
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
}

void add_json_flag(CLI::App& app, Options& options) {
  app.add_flag("--json", options.json, "JSON lines on standard output, and nothing else there");
}

void add_run_options(CLI::App& app, Options& options, Words& words) {
  app.add_option("--layout", words.layout, "Order of the KV cache: nhd, hnd")->capture_default_str()->type_name("NAME");
  app.add_option("--kv-dtype", words.kv_dtype, "Element type of K and V: that of --dtype, f8_e4m3, f8_e5m2")
      ->type_name("TYPE");
  app.add_option("--window-left", options.variant.window_left, "Tokens before its own that a query attends to; -1: all")
      ->capture_default_str()
      ->check(CLI::Range(-1, INT32_MAX))
      ->type_name("N");
  app.add_option("--soft-cap", options.variant.soft_cap, "Bound of the logits, by a tanh; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0.0F, 1e6F))
      ->type_name("X");
  app.add_flag("--sinks", options.variant.sinks, "Give each query head an attention sink, of 1");
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
  app.add_option("--planner", words.run_planner,
                 "cuda: who plans: host, or device (policy trunk alone), from tables and lengths that are there")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_flag("--check-pages", options.cuda.check_pages, "cuda: check all page ids on the device at each resolve");
  app.add_option("--trace", options.trace, "cuda: write when and where each task ran, as a Chrome trace")
      ->type_name("FILE");
}

void add_plan_options(CLI::App& app, Options& options) {
  app.add_flag("--all", options.all, "Print every node, and every item with all of its spans");
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

void add_trace_options(CLI::App& app, Options& options) {
  ReplayWords& replay = options.replay;
  app.add_option("TRACE", options.inputs, "The file of a trace")->required()->expected(1);
  std::string formats;
  for (const replay::TraceFormat& format : replay::trace_formats()) {
    formats += (formats.empty() ? "" : ", ") + std::string(format.name);
  }
  app.add_option("--format", replay.format, "Its format, where that shall not be recognised: " + formats)
      ->type_name("NAME");
  app.add_option("--limit", options.limit, "Requests, sessions or searches to take from it")
      ->check(CLI::Range(1, INT32_MAX))
      ->type_name("N");
  CLI::Option* pat = app.add_flag("--pat-style", replay.pat_style, "Filter and cut requests as PAT's driver does");
  app.add_option("--pat-max-tokens", replay.pat.max_tokens, "--pat-style: tokens of prompt and output that are kept")
      ->capture_default_str()
      ->needs(pat)
      ->type_name("N");
  app.add_flag("!--pat-keep-root-zero", replay.pat.drop_root_zero, "--pat-style: keep requests whose first id is 0")
      ->needs(pat);
  app.add_option("--time-scale", replay.arrivals.time_scale, "Of recorded times: 0.5 is twice as fast")
      ->capture_default_str()
      ->type_name("X");
  CLI::Option* rate =
      app.add_option("--rate", replay.arrivals.rate, "Requests or sessions a second, at random, not as recorded")
          ->type_name("X");
  app.add_option("--sessions", replay.arrivals.side_by_side, "Sessions or searches live at once, not as recorded")
      ->excludes(rate)
      ->check(CLI::Range(1, INT32_MAX))
      ->type_name("N");
}

void add_serving_options(CLI::App& app, Options& options, Words& words) {
  replay::ReplayOptions& loop = options.replay.loop;
  const auto number = [&](const char* name, auto& value, const char* text) {
    app.add_option(name, value, text)->capture_default_str()->type_name("N");
  };
  number("--batch", loop.scheduler.max_batch, "Requests served at once");
  number("--token-budget", loop.scheduler.token_budget, "Tokens of a step: queries first, the rest for prompts");
  number("--pool", loop.scheduler.num_pages, "Pages of the pool");
  app.add_flag("!--no-prefix-cache", loop.scheduler.prefix_cache, "Share nothing between requests");
  number("--drafts", loop.scheduler.drafts, "Draft tokens that each request brings to a step");
  number("--accept", loop.scheduler.accept, "Chance of a draft to be accepted");
  number("--layers", loop.layers, "Layers of the model");
  number("--rest-us", loop.rest_us, "Time of a step but for attention");
  number("--prompt-us", loop.prompt_token_us, "Time of a step for each token of a prompt");
  app.add_option("--step-us", loop.step_us, "Time of every step, instead of layers, rest and prompts")->type_name("N");
  number("--steps", loop.max_steps, "Decode steps to make; 0: to the end of the trace");
  app.add_option("--policy", words.policy, "How the batch is packed: " + policy_names())
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--policies", words.policies, "Beside it, for comparison: all, or names with commas between them")
      ->capture_default_str()
      ->type_name("NAMES");
  number("--price-every", loop.price_every, "Steps between comparisons, where the plan is kept");
  app.add_option("--planner", words.planner, "async: plans while the step before runs; sync: between steps")
      ->capture_default_str()
      ->type_name("NAME");
  number("--edit-share", loop.plan.edit_share, "sync: plans are edited until so large a share has changed");
  number("--growth-limit", loop.plan.growth_limit, "A plan whose longest worker is past so many times the mean goes");
}

void add_replay_outputs(CLI::App& app, Options& options) {
  app.add_flag("--check", options.replay.loop.validate, "Check each step's plan by the validator");
  CLI::Option* execute =
      app.add_option("--execute", options.replay.execute, "Run attention every so many steps, and check the outputs")
          ->check(CLI::Range(1, INT32_MAX))
          ->type_name("N");
  app.add_option("--repeat", options.replay.repeat, "--execute: also time each policy, so many runs")
      ->needs(execute)
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  app.add_option("--json", options.replay.json_file,
                 "Write a JSON line for each step, or replica, and a last one that sums up")
      ->type_name("FILE");
  app.add_option("--html", options.html, "Write a page that shows sharing and cost over time")->type_name("FILE");
}

// After all others of `replay`, some of which it excludes: they show or run the steps of one loop.
void add_replica_options(CLI::App& app, Options& options) {
  ReplayWords& replay = options.replay;
  CLI::Option* replicas =
      app.add_option("--replicas", replay.replicas, "Replicas behind a router, 1 to 1000; without it one loop")
          ->check(CLI::Range(1, 1000))
          ->type_name("N");
  for (const char* name : {"--planner", "--execute", "--html"}) replicas->excludes(app.get_option(name));
  app.add_option("--routing", replay.routing, "Which replica serves a request: " + replay::routing_policy_names())
      ->capture_default_str()
      ->needs(replicas)
      ->type_name("NAME");
  replay::SuperpositionOptions& load = replay.superposition;
  app.add_option("--copies", load.copies, "Time-shifted copies of the trace; without it as many as replicas")
      ->needs(replicas)
      ->check(CLI::Range(1, 10000))
      ->type_name("N");
  app.add_option("--samples", load.samples, "Answers to each request's prompt, asked for together")
      ->capture_default_str()
      ->needs(replicas)
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--common-share", load.common_share,
                 "Blocks that so large a share of the sessions has are the same in all copies")
      ->capture_default_str()
      ->needs(replicas)
      ->type_name("X");
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
  CLI::App* replay =
      app.add_subcommand("replay", "Walk a trace through a serving loop: sharing, plans and cost by step");
  for (CLI::App* command : {run, plan, compare}) add_inputs(*command, options);
  add_trace_options(*replay, options);
  for (CLI::App* command : {run, plan, compare, replay}) add_shape_options(*command, options, words);
  add_serving_options(*replay, options, words);
  for (CLI::App* command : {run, plan, compare, replay}) add_policy_options(*command, options, words);
  add_policy_choice(*run, *plan, *compare, words);
  CLI::App* tune = app.add_subcommand("tune", "Measure this machine and write its profile; derive a GPU's tiles");
  for (CLI::App* command : {run, plan, compare, tune, doctor, replay}) add_common_options(*command, options);
  for (CLI::App* command : {run, plan, compare, tune, doctor}) add_json_flag(*command, options);
  add_replay_outputs(*replay, options);
  add_replica_options(*replay, options);
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
         "no command; give run, plan, compare, replay, tune or doctor (trunkline --help explains them)");
  }
  options.command = run->parsed()       ? Command::kRun
                    : plan->parsed()    ? Command::kPlan
                    : compare->parsed() ? Command::kCompare
                    : replay->parsed()  ? Command::kReplay
                    : tune->parsed()    ? Command::kTune
                                        : Command::kDoctor;
  understand(words, options);
  return options;
}

}  // namespace trunkline::cli
