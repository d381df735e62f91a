// `profit`: PAT's pack scheduler (PAT, section 5.1, algorithm 1), and its ablation PAT-compute (section 8.5).
#include <cstdint>
#include <span>
#include <vector>

#include "plan/policies/chain_packs.hpp"
#include "plan/policies/padding_cost.hpp"
#include "plan/policies/policy_table.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

// PAT's equation 2 less its equation 1: a merge saves its child's s queries partials, counted as 4 s d elements since
// they are fp32, and reads the parent's l tokens once more, l d elements.
constexpr std::int64_t kPartialTokensPerQuery = 4;

bool saves_memory(const ChainEdge& edge) {
  return kPartialTokensPerQuery * edge.child_queries >= edge.parent_tokens;
}

void assign(const PolicyInput& input, std::vector<ChainPack>& chains) {
  if (input.study().profit_cost == experimental::ProfitCost::kMemory) return assign_chains(input, saves_memory, chains);
  const PaddingCost costs(input.profile.padding, input.shape.group_size(), RowTiles{});
  assign_chains(
      input, [&costs](const ChainEdge& edge) { return costs.merges(edge); }, chains);
}

/// The chains, by node. input.scratch keeps them, and says whether it has them for this forest.
std::span<const ChainPack> assign_profit(const PolicyInput& input) {
  PolicyScratch& scratch = input.scratch;
  if (!scratch.has_profit_chains) assign(input, scratch.profit_chains);
  scratch.has_profit_chains = true;
  return scratch.profit_chains;
}

}  // namespace

// If no chain carries tokens along, the packs are those of `node`.
bool profit_is_node(const PolicyInput& input) {
  const std::span<const ChainPack> chains = assign_profit(input);
  const std::span<const ForestNode> nodes = input.forest.nodes;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    if (chains[i].begin != nodes[i].begin) return false;
  }
  return true;
}

void pack_profit(const PolicyInput& input, Packs& packs) {
  const auto any_tile = [](std::int64_t) { return 0; };
  pack_chains(input, assign_profit(input), any_tile, packs);
}

Estimate estimate_profit(const PolicyInput& input, EstimateScratch& scratch) {
  EstimateLoads loads(input, scratch);
  const std::span<const ChainPack> chains = assign_profit(input);
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const auto queries = static_cast<std::int32_t>(chains[i].queries);
    if (queries == 0) continue;
    const bool whole_path = chains[i].begin == 0;
    const std::int32_t ending = whole_path ? ending_queries(input, static_cast<std::int32_t>(i)) : 0;
    loads.add(input.forest.nodes[i].end - chains[i].begin, queries, queries - ending);
  }
  return loads.finish();
}

// Each chain that has kept queries is an item, with partials if it does not read a whole path.
Nanoseconds min_time_of_profit(const PolicyInput& input) {
  const std::span<const ChainPack> chains = assign_profit(input);
  std::int64_t tokens = 0;
  std::int64_t items = 0;
  std::int64_t merged_items = 0;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    if (chains[i].queries == 0) continue;
    tokens += input.forest.nodes[i].end - chains[i].begin;
    ++items;
    merged_items += chains[i].begin > 0 ? 1 : 0;
  }
  return input.costs.min_time(tokens, items, merged_items);
}

}  // namespace trunkline
