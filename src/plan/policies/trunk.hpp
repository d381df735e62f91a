// The tiles of `trunk`, before anything is laid out.
#pragma once

#include <span>

#include "plan/policies/policy_table.hpp"

namespace trunkline {

struct TrunkTiles {
  std::span<const TrunkTile> tiles;  ///< of TrunkScratch::order_index
  TrunkWidth width;
};

/// Chooses hoisted nodes, tile width and tiles, unless input.scratch.trunk says that it has them for this forest.
TrunkTiles choose_trunk(const PolicyInput& input);

}  // namespace trunkline
