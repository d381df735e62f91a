// PAT, figures 5a and 12b: KV traffic of serving batches, and KV and partial traffic of its ablations.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/batch_file.hpp"
#include "traffic/row.hpp"
#include "tree_list.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::traffic {
namespace {

constexpr AttentionShape kShape = AttentionShape::uniform(32, 8, 128, 32, DType::kF16, Device::kCuda);

// PAT's kernels on an A100 have tiles of up to 64 rows.
MachineProfile pat_machine(const Setting& setting) {
  MachineProfile machine = machine_of(setting, "a100-80gb");
  std::erase_if(machine.tiles, [](const TileShape& tile) { return tile.m > 64; });
  machine.half_rows = 0;
  return machine;
}

PlanStatistics plan_of(Planner& planner, const Forest& forest, Policy policy, KvSplit split,
                       experimental::ProfitCost cost = experimental::ProfitCost::kMemory) {
  PlanOptions options;
  options.policy = policy;
  options.split = split;
  options.policies.study = std::make_shared<experimental::PolicyStudy>(experimental::PolicyStudy{.profit_cost = cost});
  return planner.plan(forest, kShape, options).statistics;
}

double ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Figure 5a: KV tokens of one request at a time against the least and against PAT's packs.
struct Loads {
  std::vector<double> least, grouped, read;
};

void print_loads(const Setting& setting, const std::string& machine, const std::string& input, const Loads& loads,
                 bool of_paper) {
  const auto print = [&](const char* quantity, const std::vector<double>& values, std::array<double, 2> paper) {
    Row row{"pat 5a", input, "flat (FlashAttention)", quantity, "x", geometric_mean(values), {}, {}, "plans"};
    if (of_paper) row.within = paper;
    print_row(setting, machine, row);
  };
  print("KV tokens over the least", loads.least, {4.3, 8.7});
  print("KV tokens over profit's", loads.grouped, {4.1, 7.6});
  print("KV tokens over profit's, with its re-reads by tiles of 64 rows", loads.read, {4.1, 7.6});
}

// Batches of a file of data/decode_batches.
struct Source {
  const char* file;
  std::size_t begin, end;
  const char* name;
  bool of_paper;
};
// The PAT-style file holds what the paper's serving driver makes of the trace: first with its default filter of
// requests (data/README.md), then without.
constexpr std::array kSources = {
    Source{"toolagent_pat_style", 0, 4, "PAT-style, filtered", true},
    Source{"toolagent_pat_style", 4, 8, "PAT-style, not filtered", false},
    Source{"mooncake_toolagent_window", 0, 8, "toolagent, faithful", false},
    Source{"mooncake_conversation", 0, 8, "conversation, faithful", false},
    Source{"mooncake_synthetic", 0, 8, "synthetic, faithful", false},
    Source{"agentic_weka", 0, 8, "agents, faithful", false},
};

void print_figure_5a(const Setting& setting, Planner& planner) {
  const std::string& machine = planner.profile().name;
  for (const Source& source : kSources) {
    const std::vector<cli::DecodeBatch> batches =
        cli::load_decode_batches(concat(setting.data, "/decode_batches/", source.file, ".jsonl"), source.end);
    Loads all;
    for (std::size_t i = source.begin; i < batches.size(); ++i) {
      const Forest forest = build_forest(batches[i].tree.view());
      const PlanStatistics flat = plan_of(planner, forest, Policy::kFlat, KvSplit::kNone);
      const PlanStatistics profit = plan_of(planner, forest, Policy::kProfit, KvSplit::kNone);
      const Loads one{{ratio(flat.kv_tokens_read, flat.kv_tokens_distinct)},
                      {ratio(flat.kv_tokens_read, profit.kv_tokens_grouped)},
                      {ratio(flat.kv_tokens_read, profit.kv_tokens_read)}};
      print_loads(setting, machine, concat(source.name, ", batch ", batches[i].label), one, source.of_paper);
      all.least.push_back(one.least[0]);
      all.grouped.push_back(one.grouped[0]);
      all.read.push_back(one.read[0]);
    }
    print_loads(setting, machine, concat(source.name, ", geometric mean"), all, source.of_paper);
  }
}

// Figure 12b: bytes of KV and partials of an ablation over PAT's.
struct Ablation {
  const char* method;
  Policy policy;
  experimental::ProfitCost cost;
  double paper;  // more than PAT, in percent
};
constexpr std::array kAblations = {
    Ablation{"profit, compute cost (PAT-compute)", Policy::kProfit, experimental::ProfitCost::kCompute, 10.9},
    Ablation{"node (PAT-naive)", Policy::kNode, experimental::ProfitCost::kMemory, 16.7},
};

double grouped_bytes(const PlanStatistics& statistics) {
  const std::int64_t token_bytes = kShape.kv_bytes_per_token() * kShape.kv_heads;
  return static_cast<double>(statistics.kv_tokens_grouped * token_bytes + statistics.partial_bytes);
}

double read_bytes(const PlanStatistics& statistics) {
  return static_cast<double>(statistics.kv_bytes_read + statistics.partial_bytes);
}

void print_ablation(const Setting& setting, Planner& planner, const std::vector<PrefixTree>& trees,
                    const Ablation& ablation, KvSplit split) {
  std::vector<double> grouped;
  std::vector<double> read;
  const auto print = [&](const std::string& input, double x_grouped, double x_read, std::optional<double> paper) {
    const std::string split_name = concat(", split ", name_of(split));
    print_row(setting, planner.profile().name,
              {"pat 12b",
               input,
               ablation.method,
               "KV and partial bytes more than profit's" + split_name,
               "%",
               100 * (x_grouped - 1),
               paper,
               {},
               "plans"});
    print_row(setting, planner.profile().name,
              {"pat 12b",
               input,
               ablation.method,
               "the same with re-reads by tiles of 64 rows" + split_name,
               "%",
               100 * (x_read - 1),
               paper,
               {},
               "plans"});
  };
  for (const PrefixTree& tree : trees) {
    const Forest forest = build_forest(tree.view());
    const PlanStatistics pat = plan_of(planner, forest, Policy::kProfit, split);
    const PlanStatistics other = plan_of(planner, forest, ablation.policy, split, ablation.cost);
    grouped.push_back(grouped_bytes(other) / grouped_bytes(pat));
    read.push_back(read_bytes(other) / read_bytes(pat));
    print(tree.name, grouped.back(), read.back(), std::nullopt);
  }
  print(concat("geometric mean of ", trees.size()), geometric_mean(grouped), geometric_mean(read), ablation.paper);
}

}  // namespace

void pat_figures(const Setting& setting) {
  Planner planner(pat_machine(setting));
  print_figure_5a(setting, planner);
  const std::vector<PrefixTree> trees = load_tree_list(setting.data + "/synthetic/pat_kernel_trees.json");
  for (const Ablation& ablation : kAblations) {
    for (const KvSplit split : {experimental::kSplitMean, KvSplit::kNone})
      print_ablation(setting, planner, trees, ablation, split);
  }
}

}  // namespace trunkline::traffic
