// The table of policies: the one place where a new one is entered.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/cost_model.hpp"
#include "plan/packs.hpp"
#include "plan/policies/trunk_core.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Memory that outlives a policy's call; its contents do not.
struct PolicyScratch {
  std::vector<std::int32_t> nodes;
  std::vector<std::int64_t> costs;
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
};

/// Fills empty packs, by the rules that Packs states, in time linear in the nodes and requests of the forest.
using PolicyFunction = void (*)(const PolicyInput& input, Packs& packs);

struct PolicyRow {
  Policy policy;
  const char* name;
  PolicyFunction function;  ///< null for `auto`, which is a choice among the others
  KvSplit split;            ///< the policy's own way of cutting; kOwn where the policy cuts its packs itself
};

/// In the order of the enumeration; ties in predicted time go to the earlier row.
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

/// One pack for one request: its tokens from `begin` on, open-ended. Inline, because most packs are made here.
inline void add_private_pack(const PolicyInput& input, std::int32_t order_index, std::int32_t begin, Packs& packs) {
  const std::int32_t row = input.forest.order[static_cast<std::size_t>(order_index)];
  const std::int32_t kv_len = input.forest.requests[static_cast<std::size_t>(row)].kv_len;
  packs.add_pack(input.order.positions_of(order_index), {row, begin, kv_len, kAllReaders, true});
}
/// To the open pack: the queries that end at a node, with the tails of their requests.
/// \return those requests, as a range of Forest::order
Range add_ending_queries(const PolicyInput& input, std::int32_t node, Packs& packs);
/// A pack for each empty request, whose output is zero: policies that walk nodes meet none of them.
void add_empty_requests(const PolicyInput& input, Packs& packs);

}  // namespace trunkline
