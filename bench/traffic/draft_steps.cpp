#include "traffic/draft_steps.hpp"

#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/text_file.hpp"
#include "cli/draft_file.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::traffic {
namespace {

// "max length = 6000" in the paper's table 6; it says nothing of APPS's prompts, of some hundreds of tokens.
constexpr std::int32_t kPrompt = 500;
constexpr std::int32_t kLongest = 6000;

}  // namespace

DraftSteps load_draft_steps(const std::string& data, const std::string& tree) {
  DraftSteps steps;
  steps.parent = cli::load_draft_tree(data + "/speculative/deft_topologies.json:" + tree);
  const nlohmann::json accepts = nlohmann::json::parse(read_text_file(data + "/speculative/deft_accept_apps.json"));
  const auto accept = accepts.at("accept").at(0).get<std::vector<std::int32_t>>();
  std::int32_t past = kPrompt;
  for (std::size_t i = 0; past <= kLongest; i = (i + 1) % accept.size()) {
    steps.past.push_back(past);
    past += accept[i];
  }
  return steps;
}

void print_token_trees(const Setting& setting, const MachineProfile& machine, const AttentionShape& shape,
                       const std::string& input, const DraftSteps& draft, std::int64_t paths) {
  Planner planner(machine);
  for (const Policy policy : {Policy::kFlat, Policy::kFlatten, Policy::kTrunk}) {
    PlanOptions options;
    options.policy = policy;
    std::int64_t read = 0;
    std::int64_t grouped = 0;
    for (const std::int32_t past : draft.past) {
      const PrefixTree tree{"draft", {-1}, {past}, {0}, {draft.parent}};
      const PagedBatch paged = lay_out_pages(tree, shape.page_size, 1);
      const PlanStatistics& statistics = planner.plan(build_forest(paged.view()), shape, options).statistics;
      read += statistics.kv_tokens_read;
      grouped += statistics.kv_tokens_grouped;
    }
    const auto print = [&](const char* quantity, std::int64_t tokens) {
      const std::string method = concat(name_of(policy), ", draft as one request");
      print_row(setting, machine.name,
                {"deft 12",
                 input,
                 method,
                 quantity,
                 "%",
                 reduction(static_cast<double>(tokens), static_cast<double>(paths)),
                 {},
                 {},
                 "plans"});
    };
    print("KV traffic reduction", grouped);
    print("KV traffic reduction, with re-reads by narrow tiles", read);
  }
}

}  // namespace trunkline::traffic
