// `invariant`: KV is cut at multiples of a fixed number of tokens and nowhere else, so that a request's partials are
// over the same tokens, and are merged in the same order, whatever else is in the batch. A chunk that several requests
// hold in whole is read once for all of them; one in which they part is read by each by itself, as its tokens would
// otherwise meet a row in another order than when it is alone.
#include <algorithm>
#include <cstdint>

#include "plan/policies/node_packs.hpp"
#include "plan/policies/policy_table.hpp"

namespace trunkline {
namespace {

/// Tokens of a row that closed chunks may hold: drafts belong to the open end, which alone has masks for them.
std::int32_t past_of(const PolicyInput& input, std::int32_t row) {
  const ForestRequest& request = input.forest.requests[static_cast<std::size_t>(row)];
  return std::max(request.kv_len - input.order.drafts(row), 0);
}

/// A pack for each whole chunk whose last token is one of the node's: those are whole for all of its members.
void add_whole_chunks(const PolicyInput& input, std::int32_t index, Packs& packs) {
  const ForestNode& node = input.forest.nodes[static_cast<std::size_t>(index)];
  const std::int64_t chunk = input.options.invariant_chunk;
  const std::int32_t last = node.requests.size() == 1 ? std::min(node.end, past_of(input, node.row)) : node.end;
  std::int64_t end = (node.begin / chunk + 1) * chunk;
  for (; end <= last; end += chunk) {
    packs.add_segment({node.row, static_cast<std::int32_t>(end - chunk), static_cast<std::int32_t>(end)});
    if (end == node.end) add_tails(input, index, packs);
    packs.add_queries(input.order.positions(node.requests));
    packs.close();
  }
}

/// Adds the remainder of a request behind its whole chunks, open-ended. Without a remainder the tail of the last chunk
/// is the open end: one chunk less to merge.
void add_remainder(const PolicyInput& input, std::int32_t order_index, Packs& packs) {
  const std::int32_t row = input.forest.order[static_cast<std::size_t>(order_index)];
  const std::int32_t chunk = input.options.invariant_chunk;
  const std::int32_t past = past_of(input, row);
  const bool has_drafts = input.order.drafts(row) > 0;
  if (past > 0 && past % chunk == 0 && !has_drafts) return;
  add_private_pack(input, order_index, past / chunk * chunk, packs);
}

}  // namespace

// Nodes in pre-order, then remainders: a query's packs come by rising position.
void pack_invariant(const PolicyInput& input, Packs& packs) {
  packs.use_tile(input.tiles.uniform_rows());
  for (std::size_t i = 0; i < input.forest.nodes.size(); ++i) {
    add_whole_chunks(input, static_cast<std::int32_t>(i), packs);
  }
  const auto requests = static_cast<std::int32_t>(input.forest.order.size());
  for (std::int32_t i = 0; i < requests; ++i) add_remainder(input, i, packs);
  packs.use_tile(0);
}

}  // namespace trunkline
