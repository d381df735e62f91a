// DeFT, tables 4, 5 and 12: KV traffic and traffic of partial results over whole decodings, by method.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "replay/decoding_tree_file.hpp"
#include "traffic/draft_steps.hpp"
#include "traffic/replay.hpp"
#include "traffic/row.hpp"

namespace trunkline::traffic {
namespace {

// Llama-3-8B on an A100, as in the paper's section 4.1. Its table 12 counts every query head's reads, with no reuse in
// a group: 17.62 TB of Flash-Decoding at 20 branches are 33.6 million tokens x 2 x 128 x 32 heads x 2 bytes x 32
// layers.
constexpr AttentionShape kLlama3 = AttentionShape::uniform(32, 8, 128, 1, DType::kF16, Device::kCuda);
constexpr double kLayers = 32;
constexpr double kPaperTokenBytes = 2.0 * 128 * 32 * 2 * kLayers;
constexpr double kTera = 1e12;

// One column of table 12, averaged over `trees` decodings.
struct Column {
  std::string input;
  double trees = 1;
  ReplayTotals totals;
  double kv_reduction = 0;  // the paper's figures, in percent
  double partial_reduction = 0;
  double flat_tb = 0;  // NaN: out of memory there
  double medusa_partial_tb = 0;
};

class DeftTables {
 public:
  DeftTables(const Setting& setting, std::string machine) : setting_(setting), machine_(std::move(machine)) {}

  void print(const Column& column) {
    print_reads(column);
    print_partials(column);
    print_storage(column);
  }

 private:
  void row(const char* table, const Column& column, const char* method, const char* quantity, const char* unit,
           double ours, std::optional<double> paper = std::nullopt, const char* from = "plans") {
    print_row(setting_, machine_, {table, column.input, method, quantity, unit, ours, paper, std::nullopt, from});
  }

  // KV traffic against one query at a time. Flash-Decoding and Radix Attention are `flat`; Medusa's one group and
  // SpecInfer's whole tree for each query follow from table 4 on the same forests.
  void print_reads(const Column& column) {
    const ReplayTotals& totals = column.totals;
    const auto paths = static_cast<double>(totals.paths);
    const auto reads = [&](const char* method, double tokens, std::optional<double> paper, const char* from) {
      row("deft 12", column, method, "KV traffic reduction", "%", reduction(tokens, paths), paper, from);
    };
    const double flat = static_cast<double>(totals.of(Policy::kFlat).read);
    reads("flat (Flash-Decoding, Radix)", flat, std::nullopt, "plans");
    reads("Medusa", static_cast<double>(totals.distinct), std::nullopt, "formula");
    reads("SpecInfer", static_cast<double>(totals.pairs), std::nullopt, "formula");
    reads("node", static_cast<double>(totals.of(Policy::kNode).grouped), std::nullopt, "plans");
    const PolicyTotals& flatten = totals.of(Policy::kFlatten);
    reads("flatten", static_cast<double>(flatten.grouped), column.kv_reduction, "plans");
    reads("flatten, with re-reads by narrow tiles", static_cast<double>(flatten.read), std::nullopt, "plans");
    const std::optional<double> paper =
        std::isnan(column.flat_tb) ? std::nullopt : std::optional<double>(column.flat_tb);
    row("deft 12", column, "flat (Flash-Decoding, Radix)", "KV traffic of a decoding, as the paper counts", "TB",
        flat * kPaperTokenBytes / column.trees / kTera, paper);
  }

  // Table 4's terms for Medusa: QK, QK/s, M + QK/s and the softmax are written and read in every head; the mask is
  // read. Table 12's figures fit 8 x heads + 1 values: one mask for all heads of a layer.
  void print_partials(const Column& column) {
    const ReplayTotals& totals = column.totals;
    const double medusa = (8.0 * kLlama3.q_heads + 1) * static_cast<double>(totals.pairs) * 2 * kLayers;
    const auto terabytes = [&](double bytes) { return bytes / column.trees / kTera; };
    const PolicyTotals& flatten = totals.of(Policy::kFlatten);
    const double masks = static_cast<double>(flatten.mask_bytes) * kLayers;
    const double specinfer = static_cast<double>(totals.pairs) / 64 * 8 * kLayers;
    row("deft 12", column, "Medusa", "traffic of dense intermediate results", "TB", terabytes(medusa),
        column.medusa_partial_tb, "formula");
    row("deft 12", column, "SpecInfer", "traffic of masks", "TB", terabytes(specinfer), std::nullopt, "formula");
    row("deft 12", column, "flatten", "traffic of masks", "TB", terabytes(masks));
    row("deft 12", column, "flatten", "reduction of that traffic against Medusa", "%", reduction(masks, medusa),
        column.partial_reduction);
    row("deft 12", column, "node", "traffic of partial outputs, which the paper leaves out", "TB",
        terabytes(static_cast<double>(totals.of(Policy::kNode).partial_bytes) * kLayers));
    row("deft 12", column, "flatten", "traffic of partial outputs, which the paper leaves out", "TB",
        terabytes(static_cast<double>(flatten.partial_bytes) * kLayers));
  }

  // Table 5: Flash-Decoding and Medusa need contiguous KV, so each step copies (reads and writes) what they then read.
  void print_storage(const Column& column) {
    const auto copied = [&](std::int64_t tokens) {
      return 2 * static_cast<double>(tokens) * static_cast<double>(kLlama3.kv_bytes_per_token() * kLlama3.kv_heads) *
             kLayers / column.trees / kTera;
    };
    const char* quantity = "copies to contiguous KV, 8 KV heads";
    row("deft 5", column, "Flash-Decoding, unpaged", quantity, "TB", copied(column.totals.paths), std::nullopt,
        "formula");
    row("deft 5", column, "Medusa, unpaged", quantity, "TB", copied(column.totals.distinct), std::nullopt, "formula");
    row("deft 5", column, "all policies, paged", quantity, "TB", 0);
  }

  const Setting& setting_;
  std::string machine_;
};

void print_few_shot(const MachineProfile& machine, DeftTables& tables) {
  struct Case {
    std::int32_t branches;
    double kv, flat_tb, medusa_tb;
  };
  for (const Case& c : {Case{20, 90.47, 17.62, 1.05}, Case{30, 92.1, 26.43, 1.98}, Case{50, 93.33, 44.05, 4.61}}) {
    ReplayCounter counter(machine, kLlama3);
    counter.add(few_shot_tree(4000, c.branches, 400));
    tables.print(
        {concat("few-shot, ", c.branches, " branches"), 1, counter.totals(), c.kv, 100, c.flat_tb, c.medusa_tb});
  }
}

void print_reasoning(const Setting& setting, const MachineProfile& machine, DeftTables& tables) {
  struct Case {
    const char* file;
    const char* name;
    double kv, partial, flat_tb, medusa_tb;
  };
  for (const Case& c :
       {Case{"sorting128", "sorting", 79.32, 99.73, 59.96, 3.69},
        Case{"docmerge", "document", 73.40, 99.70, 39.74, 3.24}, Case{"keyword", "keyword", 87.61, 100, 4.68, 0.18},
        Case{"set128", "set", 85.16, 100, 7.01, 0.27}}) {
    ReplayCounter counter(machine, kLlama3);
    const std::vector<DecodingTree> trees =
        replay::load_decoding_trees(concat(setting.data, "/reasoning/", c.file, ".jsonl"));
    for (const DecodingTree& tree : trees) counter.add(tree);
    tables.print({concat("reasoning, ", c.name, ", ", trees.size(), " trees"), static_cast<double>(trees.size()),
                  counter.totals(), c.kv, c.partial, c.flat_tb, c.medusa_tb});
  }
}

void print_speculative(const Setting& setting, const MachineProfile& machine, DeftTables& tables) {
  struct Case {
    int tokens;
    double kv, flat_tb, medusa_tb;
  };
  for (const Case& c : {Case{32, 96.88, 131.45, 4.03}, Case{64, 98.40, 256.79, 8.33}, Case{128, 99.20, 522.05, 16.77},
                        Case{256, 99.58, 1044.10, 34.70}}) {
    const DraftSteps draft = load_draft_steps(setting.data, concat("t", c.tokens));
    ReplayCounter counter(machine, kLlama3);
    for (const std::int32_t past : draft.past) counter.add(token_tree(past, draft.parent));
    const Column column{concat("speculative, t = ", c.tokens), 1, counter.totals(), c.kv, 100, c.flat_tb, c.medusa_tb};
    tables.print(column);
    print_token_trees(setting, machine, kLlama3, column.input, draft, counter.totals().paths);
  }
}

}  // namespace

void deft_tables(const Setting& setting) {
  const MachineProfile machine = machine_of(setting, "a100-80gb");
  DeftTables tables(setting, machine.name);
  print_few_shot(machine, tables);
  print_reasoning(setting, machine, tables);
  print_speculative(setting, machine, tables);
}

}  // namespace trunkline::traffic
