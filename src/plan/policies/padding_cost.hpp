// FastTree's costs (FastTree, section 4.2, equations 3 to 11), in integers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "plan/policies/chain_packs.hpp"
#include "trunkline/machine.hpp"

namespace trunkline {

/// Rows of the tiles among which a group's queries choose: a group that fits the small one gets it, others the large
/// one. Equal where there is but one tile.
struct RowTiles {
  std::int32_t small = 16;
  std::int32_t large = 64;
  bool operator==(const RowTiles&) const = default;
};

/// Costs of padding a group, and of its partials, in thousandths of a (query, token) pair: the factor d that all of
/// them have drops out, and so does the group size, since queries are counted, not rows.
class PaddingCost {
 public:
  PaddingCost(const PaddingCosts& weights, std::int32_t group_size, RowTiles tiles)
      : alpha_(thousandths(weights.alpha)),
        beta_(thousandths(weights.beta)),
        gamma_(thousandths(weights.gamma)),
        group_size_(group_size),
        tiles_(tiles) {}

  /// m of the tile of a group.
  std::int32_t tile_rows(std::int64_t queries) const {
    return queries > queries_in(tiles_.small) ? tiles_.large : tiles_.small;
  }
  /// TS_q, the queries that the tile of a group holds.
  std::int64_t tile_queries(std::int64_t queries) const { return queries_in(tile_rows(queries)); }

  /// Whether SplitKVCost exceeds SplitQCost, so that algorithm 1 concatenates the child to its parent.
  bool merges(const ChainEdge& edge) const {
    const std::int64_t split_kv = padding(edge.parent_queries, edge.parent_tokens) +
                                  padding(edge.child_queries, edge.child_tokens) + gamma_ * edge.child_queries;
    const std::int64_t split_q = padding(edge.parent_queries - edge.child_queries, edge.parent_tokens) +
                                 padding(edge.child_queries, edge.parent_tokens + edge.child_tokens);
    return split_kv > split_q;
  }

 private:
  // TS_c; neither of FastTree's tiles takes more tokens at a time.
  static constexpr std::int64_t kTileTokens = 32;
  // Far beyond any fit. It keeps the costs of 2^31 queries or tokens in 64 bits.
  static constexpr double kMaxWeight = 1000;

  static std::int64_t thousandths(double weight) { return std::llround(std::min(weight, kMaxWeight) * 1000); }
  /// Equation 3; nothing is nothing to pad.
  static std::int64_t pad(std::int64_t tile, std::int64_t count) { return (tile - count % tile) % tile; }

  std::int64_t queries_in(std::int32_t rows) const { return std::max(rows / group_size_, 1); }
  /// Equations 5 to 7. A context of at least TS_c tokens pads nothing.
  std::int64_t padding(std::int64_t queries, std::int64_t tokens) const {
    return alpha_ * pad(tile_queries(queries), queries) * tokens +
           beta_ * queries * pad(kTileTokens, std::min(tokens, kTileTokens));
  }

  std::int64_t alpha_;
  std::int64_t beta_;
  std::int64_t gamma_;
  std::int32_t group_size_;
  RowTiles tiles_;
};

}  // namespace trunkline
