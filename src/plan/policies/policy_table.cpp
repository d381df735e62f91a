#include "plan/policies/policy_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "base/check.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

constexpr std::array kPolicies = {
    PolicyRow{Policy::kFlat, "flat", pack_flat, KvSplit::kBalance},
    PolicyRow{Policy::kCascade, "cascade", pack_cascade, KvSplit::kBalance},
    PolicyRow{Policy::kNode, "node", pack_node, KvSplit::kBalance},
    PolicyRow{Policy::kProfit, "profit", pack_profit, KvSplit::kBalance},
    PolicyRow{Policy::kGreedy, "greedy", pack_greedy, experimental::kSplitLong},
    PolicyRow{Policy::kFlatten, "flatten", pack_flatten, KvSplit::kNone},
    PolicyRow{Policy::kBalanced, "balanced", pack_balanced, KvSplit::kOwn},
    PolicyRow{Policy::kTrunk, "trunk", pack_trunk, KvSplit::kBalance, true},
    PolicyRow{Policy::kInvariant, "invariant", pack_invariant, KvSplit::kNone, false, true},
    PolicyRow{Policy::kAuto, "auto", nullptr, KvSplit::kOwn},
};

constexpr bool rows_are_in_enumeration_order() {
  for (std::size_t i = 0; i < kPolicies.size(); ++i) {
    if (kPolicies[i].policy != static_cast<Policy>(i)) return false;
  }
  return true;
}
static_assert(rows_are_in_enumeration_order(), "policy_row() finds a policy's row by its number");
static_assert(kPolicies.back().policy == Policy::kAuto, "all before it make packs");

}  // namespace

std::span<const PolicyRow> policy_table() {
  return kPolicies;
}

const PolicyRow& policy_row(Policy policy) {
  const auto index = static_cast<std::size_t>(policy);
  if (index >= kPolicies.size())
    fail(ErrorCode::kInvalidArgument, "policy is ", index, "; known are 0 to ", kPolicies.size() - 1);
  return kPolicies[index];
}

const char* name_of(Policy policy) {
  return policy_row(policy).name;
}

Policy policy_from_name(std::string_view name) {
  std::string known;
  for (const PolicyRow& row : kPolicies) {
    if (name == row.name) return row.policy;
    known += known.empty() ? row.name : std::string(", ") + row.name;
  }
  fail(ErrorCode::kInvalidArgument, "policy is '", name, "'; known are ", known);
}

Range add_tails(const PolicyInput& input, std::int32_t node, Packs& packs) {
  const Range ending = input.forest.ending_at(node);
  for (std::int32_t i = ending.begin; i < ending.end; ++i) {
    const std::int32_t row = input.forest.order[static_cast<std::size_t>(i)];
    packs.add_tail(row, input.forest.requests[static_cast<std::size_t>(row)].kv_len, input.order.positions_of(i));
  }
  return ending;
}

void add_node_pack(const PolicyInput& input, std::int32_t index, std::int32_t begin, Packs& packs) {
  const ForestNode& node = input.forest.nodes[static_cast<std::size_t>(index)];
  if (node.requests.size() == 1) {
    add_private_pack(input, node.requests.begin, begin, packs);
    return;
  }
  packs.add_segment({node.row, begin, node.end});
  add_tails(input, index, packs);
  packs.add_queries(input.order.positions(node.requests));
  packs.close();
}

void add_empty_requests(const PolicyInput& input, Packs& packs) {
  auto index = static_cast<std::int32_t>(input.forest.order.size());
  while (index > 0) {
    const std::int32_t row = input.forest.order[static_cast<std::size_t>(index - 1)];
    if (input.forest.requests[static_cast<std::size_t>(row)].kv_len > 0) break;
    --index;
  }
  for (; index < static_cast<std::int32_t>(input.forest.order.size()); ++index)
    add_private_pack(input, index, 0, packs);
}

}  // namespace trunkline
