// What planning asks of a forest again and again, in a block's own memory, where that takes a tenth of what L2 takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_memory.hpp"

namespace trunkline {

/// What a block that has the forest near is told of a row of it.
struct NearRow {
  std::int32_t index;   ///< of Forest::order
  std::int32_t kv_len;  ///< tokens
  std::int32_t shared;  ///< those in common with the row before it in that order
};

struct NearForest {
  ForestNode* nodes = nullptr;          ///< TeamForest's, as those below; null: there is none
  std::int32_t* order = nullptr;        ///< [rows]
  std::int32_t* node = nullptr;         ///< [rows]
  std::int32_t* query_begin = nullptr;  ///< [rows + 1]

  TRUNKLINE_HOST_DEVICE void lay_out(TeamMemory& memory, std::int32_t rows) {
    const std::int32_t room = whole_room(rows);
    nodes = memory.take<ForestNode>(std::int64_t{2} * room);
    order = memory.take<std::int32_t>(room);
    node = memory.take<std::int32_t>(room);
    query_begin = memory.take<std::int32_t>(whole_room(rows + 1));
  }

  /// A block's copy of another forest, without a barrier: known after finish_copies() by all threads and a barrier.
  /// \param queries query_begin, too
  template <class Block>
  TRUNKLINE_HOST_DEVICE void copy(Block& block, const TeamForest& from, std::int32_t node_count, bool queries) const {
    const NearForest to = *this;
    const std::int32_t begins = queries ? from.rows + 1 : 0;
    block.each_at_last(most(node_count, most(begins, from.rows)), [&from, to, node_count, begins](std::int32_t i) {
      if (i < node_count) copy_ahead<16>(to.nodes[i], from.nodes[i]);
      if (i < from.rows) copy_ahead<4>(to.order[i], from.order[i]);
      if (i < from.rows) copy_ahead<4>(to.node[i], from.node[i]);
      if (i < begins) copy_ahead<4>(to.query_begin[i], from.query_begin[i]);
    });
  }

  TRUNKLINE_HOST_DEVICE void take_over(TeamForest& forest) const {
    forest.nodes = nodes;
    forest.order = order;
    forest.node = node;
    forest.query_begin = query_begin;
  }
};

}  // namespace trunkline
