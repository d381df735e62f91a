// Queries and segments of the tiles of `trunk`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/policies/policy_input.hpp"

namespace trunkline {

/// Adds the queries and segments of one tile after another, in depth-first order.
class TileSegments {
 public:
  explicit TileSegments(const PolicyInput& input) : input_(input), scratch_(input.scratch.trunk) {}

  /// To the open pack, which counts slices as kernels do, and which the caller closes.
  void add(const TrunkTile& tile, const TrunkWidth& width, Packs& packs);

 private:
  void add_queries(std::span<const std::int32_t> members, Packs& packs) const;
  std::int32_t middle_position(std::span<const std::int32_t> members, std::int32_t half_queries) const;
  void collect_path(std::int32_t order_index);
  void collect_node(std::size_t node);
  std::vector<PackSegment>& own_of(Range readers);
  bool in_common(Range requests) const;
  void add_interleaved(Packs& packs) const;

  const PolicyInput& input_;
  TrunkScratch& scratch_;
  std::size_t next_node_ = 0;  // the first node that a later tile may meet first
  Range members_;              // of the tile, as a range of Forest::order that holds them
  std::int32_t middle_ = 0;    // position of the second half's first query; 0: the tile works as one
  bool interleave_ = false;
};

}  // namespace trunkline
