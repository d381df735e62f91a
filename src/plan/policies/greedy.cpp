// `greedy`: FastTree's edge assignment (FastTree, section 4.2, algorithm 1) with its multi-phase tiles (section 5). The
// long contexts of section 4.3 are cut by kSplitLong.
#include <cstdint>
#include <span>

#include "plan/policies/chain_packs.hpp"
#include "plan/policies/padding_cost.hpp"
#include "plan/policies/policy_table.hpp"

namespace trunkline {
namespace {

constexpr RowTiles kPhases = {16, 64};
constexpr RowTiles kSmallTile = {16, 16};
constexpr RowTiles kLargeTile = {64, 64};

std::span<const ChainPack> assign(const PolicyInput& input, const PaddingCost& costs) {
  assign_chains(
      input, [&costs](const ChainEdge& edge) { return costs.merges(edge); }, input.scratch.chains);
  return input.scratch.chains;
}

/// Both tiles where the packs of each fill the machine, or where one alone is used; otherwise the tile that remains.
/// FastTree says neither what to do when both leave workers idle nor how packs count; as in its code the small tile
/// remains then, which makes more packs. Packs count before long contexts are cut.
RowTiles filling_tiles(const PolicyInput& input, const PaddingCost& costs, std::span<const ChainPack> chains) {
  std::int64_t small = 0;
  std::int64_t large = 0;
  for (const ChainPack& chain : chains) {
    const std::int64_t tile_queries = costs.tile_queries(chain.queries);
    const std::int64_t packs = (chain.queries + tile_queries - 1) / tile_queries;
    (costs.tile_rows(chain.queries) == kPhases.small ? small : large) += packs;
  }
  if (small == 0 || large == 0) return kPhases;
  if (large * input.costs.kv_heads() < input.costs.workers()) return kSmallTile;
  if (small * input.costs.kv_heads() < input.costs.workers()) return kLargeTile;
  return kPhases;
}

}  // namespace

void pack_greedy(const PolicyInput& input, Packs& packs) {
  const auto costs_with = [&input](RowTiles tiles) {
    return PaddingCost(input.profile.padding, input.shape.group_size(), tiles);
  };
  PaddingCost costs = costs_with(input.study().greedy_phases ? kPhases : kLargeTile);
  std::span<const ChainPack> chains = assign(input, costs);
  if (input.study().greedy_phases) {
    const RowTiles tiles = filling_tiles(input, costs, chains);
    if (tiles != kPhases) {
      costs = costs_with(tiles);
      chains = assign(input, costs);
    }
  }
  pack_chains(
      input, chains, [&costs](std::int64_t queries) { return costs.tile_rows(queries); }, packs);
}

}  // namespace trunkline
