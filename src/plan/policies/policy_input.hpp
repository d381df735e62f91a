// The input of a policy: one forest on one machine, and memory that outlives the call.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/cost_model.hpp"
#include "plan/cost_table.hpp"
#include "plan/packs.hpp"
#include "plan/policies/trunk_scratch.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// The pack of a node that may carry tokens of its ancestors along (chain_packs.hpp).
struct ChainPack {
  std::int32_t begin = 0;    ///< its first token
  std::int32_t queries = 0;  ///< those that no child took along
};

/// Memory that outlives a policy's call; its contents do not.
struct PolicyScratch {
  std::vector<ChainPack> chains;  // by node
  std::vector<ChainPack> profit_chains;
  bool has_profit_chains = false;  // of the present forest
  std::vector<Nanoseconds> costs;  // by node
  MeasuredCosts measured;
  TrunkScratch trunk;
};

/// The input of a policy.
struct PolicyInput {
  const Forest& forest;
  const AttentionShape& shape;
  const MachineProfile& profile;
  const QueryOrder& order;
  const TileTable& tiles;
  const CostModel& costs;  ///< as if all tokens came from memory
  const PolicyOptions& options;
  PolicyScratch& scratch;

  const experimental::PolicyStudy& study() const {
    static const experimental::PolicyStudy kDefaults;
    return options.study == nullptr ? kDefaults : *options.study;
  }
};

}  // namespace trunkline
