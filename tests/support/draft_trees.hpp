// The draft trees that Medusa, EAGLE and DeFT publish, from data/speculative.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trunkline::testing {

struct DraftTree {
  std::string name;
  std::vector<std::int32_t> parents;  ///< [t] as Batch::query_parents
};

/// All of them, of 6 to 256 query tokens.
const std::vector<DraftTree>& published_draft_trees();

}  // namespace trunkline::testing
