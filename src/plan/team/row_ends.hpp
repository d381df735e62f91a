// The ends of rows in a forest whose shape is at hand, and tokens of all rows.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/row_sharing.hpp"
#include "plan/team/team_batch.hpp"
#include "plan/team/team_forest.hpp"

namespace trunkline {

/// Tokens of many rows, added up in parts of 32 bits: what lanes of a device add in one step, and so do warps.
struct TokenSums {
  enum Sum : std::int32_t {
    kTotal,     // of all rows
    kDistinct,  // tokens that a row owns
    kAlone,     // those of nodes that no other row is in
    kSums
  };
  std::uint32_t low[kSums] = {};   ///< of 16 bits each
  std::uint32_t high[kSums] = {};  ///< of those above

  TRUNKLINE_HOST_DEVICE std::int64_t of(Sum sum) const { return (std::int64_t{high[sum]} << 16) + low[sum]; }

  /// What each lane has of each Sum, in their order.
  template <class Block, class Lanes>
  TRUNKLINE_HOST_DEVICE void add(const Lanes& lanes, const std::int32_t (&tokens)[kSums]) {
    std::uint32_t lower[kSums];
    std::uint32_t upper[kSums];
    for (std::int32_t which = 0; which < kSums; ++which) {
      lower[which] = lanes.sum(static_cast<std::uint32_t>(tokens[which]) & 0xFFFFu);
      upper[which] = lanes.sum(static_cast<std::uint32_t>(tokens[which]) >> 16);
    }
    if (lanes.index() != 0) return;
    for (std::int32_t which = 0; which < kSums; ++which) {
      Block::fetch_add(low[which], lower[which]);
      Block::fetch_add(high[which], upper[which]);
    }
  }
};
static_assert(kMaxTeamRows <= 0xFFFF);  // so many times 16 bits are 32

/// Of a forest whose shape is at hand. \param near_nodes, near_node where a block has it, which may be in `forest`
/// \param takes(row) whether the block is to write what is kept of the row, and `forest` \param sums clear
/// \param keep(row, alone) as find_forest's
/// \param found(row, node, alone) of each row; node: that it is the first to be in, null where it has no tokens of its
/// own
template <class Block, class Takes, class Keep, class Found>
TRUNKLINE_HOST_DEVICE void update_ends(Block& block, const RowSharing& from, ForestNode* near_nodes,
                                       const std::int32_t* near_node, const TeamForest& forest, TokenSums& sums,
                                       Takes takes, Keep keep, Found found) {
  block.each_warp(ceil_div(from.rows, Block::kLanes), [&](std::int32_t run, const auto& lanes) {
    const std::int32_t row = run * Block::kLanes + lanes.index();
    const bool here = row < from.rows;
    const std::int32_t kv_len = here ? from.kv_len(row) : 0;
    const bool taken = here && takes(row);
    const ForestNode* own = nullptr;
    bool alone = false;
    if (here && from.owns_tokens(row)) {
      const std::int32_t number = near_node[row];
      ForestNode& node = near_nodes[number];
      own = &node;
      alone = node.requests.end - node.requests.begin == 1;
      node.end = kv_len;
      if (taken) forest.nodes[number].end = kv_len;
    }
    sums.template add<Block>(lanes, {kv_len, here ? kv_len - from.shared(row) : 0, alone ? kv_len - own->begin : 0});
    if (here) found(row, own, alone);
    if (!taken) return;
    keep(row, alone);
    forest.kv_len[row] = kv_len;
  });
}

}  // namespace trunkline
