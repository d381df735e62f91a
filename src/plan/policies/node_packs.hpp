// Packs of single requests and single nodes, which most policies make.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/packs.hpp"
#include "plan/policies/policy_input.hpp"

namespace trunkline {

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
