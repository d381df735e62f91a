// The table of policies: the one place where a new one is entered.
#pragma once

#include <cstdint>
#include <span>
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

/// What a policy works on.
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

/// Fills empty packs, by the rules that Packs states, in time linear in what it makes and in the nodes and requests of
/// the forest.
using PolicyFunction = void (*)(const PolicyInput& input, Packs& packs);

struct PolicyRow {
  Policy policy;
  const char* name;
  PolicyFunction function;     ///< null for `auto`, which is a choice among the others
  KvSplit split;               ///< the policy's own way of cutting; kOwn where the policy cuts its packs itself
  bool few_partials = false;   ///< balance cuts may make as many partials as CutChoice::too_many() allows
  bool own_cuts_only = false;  ///< whatever way of cutting is asked for
};

/// In the order of the enumeration.
std::span<const PolicyRow> policy_table();
const PolicyRow& policy_row(Policy policy);

void pack_flat(const PolicyInput& input, Packs& packs);
void pack_cascade(const PolicyInput& input, Packs& packs);
void pack_node(const PolicyInput& input, Packs& packs);
void pack_profit(const PolicyInput& input, Packs& packs);
void pack_greedy(const PolicyInput& input, Packs& packs);
void pack_flatten(const PolicyInput& input, Packs& packs);
void pack_balanced(const PolicyInput& input, Packs& packs);
void pack_trunk(const PolicyInput& input, Packs& packs);
void pack_invariant(const PolicyInput& input, Packs& packs);

/// One pack for one request: its tokens from `begin` on, open-ended. Inline, because most packs are made here.
inline void add_private_pack(const PolicyInput& input, std::int32_t order_index, std::int32_t begin, Packs& packs) {
  const std::int32_t row = input.forest.order[static_cast<std::size_t>(order_index)];
  const std::int32_t kv_len = input.forest.requests[static_cast<std::size_t>(row)].kv_len;
  packs.add_pack(input.order.positions_of(order_index), {row, begin, kv_len, kAllReaders, true});
}
/// One pack for a node's tokens from `begin` on: the queries of all its members, and the tails of those that end there.
void add_node_pack(const PolicyInput& input, std::int32_t node, std::int32_t begin, Packs& packs);
/// To the open pack: the tails of the requests that end at a node. Their queries are not added.
/// \return those requests, as a range of Forest::order
Range add_tails(const PolicyInput& input, std::int32_t node, Packs& packs);
/// A pack for each empty request, whose output is zero: policies that walk nodes meet none of them.
void add_empty_requests(const PolicyInput& input, Packs& packs);

}  // namespace trunkline
