// Memory that `trunk` keeps between plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/packs.hpp"
#include "plan/policies/trunk_core.hpp"

namespace trunkline {

struct TrunkScratch {
  std::vector<std::uint8_t> hoisted;      // [nodes] moved to a pack of its own
  std::vector<std::uint8_t> streams;      // [nodes] tiles stream some node of its path
  std::vector<std::int32_t> path_tokens;  // [nodes] that tiles stream, up to the node's end
  std::vector<std::int32_t> order_index;  // of the requests that tiles hold, in depth-first order
  std::vector<std::int32_t> tokens;       // beside order_index, as in TrunkRequests
  std::vector<std::int32_t> shared;
  std::vector<std::int64_t> fresh_before;
  std::vector<std::int32_t> query_begin;
  std::vector<TrunkWidth> widths;
  std::vector<TrunkTile> tiles;
  std::vector<std::int32_t> path;   // nodes of one request, from its end to the root
  std::vector<PackSegment> common;  // segments of one tile that others or both halves stream too
  // Its other segments; of a tile that works as two, the first half's, and the second's.
  std::vector<PackSegment> own;
  std::vector<PackSegment> own_of_second;
  CostClasses classes;
  TrunkChoice choice;   // that `tiles` hold
  bool chosen = false;  // for the present forest

  /// Lists of requests, and tiles, get room for so many requests.
  void resize(std::size_t requests) {
    order_index.resize(requests);
    tokens.resize(requests);
    shared.resize(requests);
    fresh_before.resize(requests + 1);
    query_begin.resize(requests + 1);
    tiles.resize(requests);
  }
};

}  // namespace trunkline
