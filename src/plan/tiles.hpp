// Which kernel tile an item gets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// A profile's tiles for one group size. A lookup takes constant time.
class TileTable {
 public:
  /// \throws Error(kUnsupported) when a single query has more rows than the largest tile.
  void reset(const std::vector<TileShape>& tiles, std::int32_t group_size);

  /// Queries that fit the largest tile, at most kMaxItemQueries.
  std::int32_t max_queries() const { return max_queries_; }
  /// The smallest m that holds the rows; of its kernels, the largest n that the tokens fill, else the smallest.
  TileShape tile(std::int32_t queries, std::int64_t tokens) const {
    std::size_t tile = first_[static_cast<std::size_t>(queries)];
    while (tile + 1 < tiles_.size() && tiles_[tile + 1].m == tiles_[tile].m && tiles_[tile + 1].n <= tokens) ++tile;
    return tiles_[tile];
  }

 private:
  std::vector<TileShape> tiles_;  // by rising m, then n
  std::array<std::size_t, kMaxItemQueries + 1>
      first_{};  // by queries: the first tile of the smallest m that holds them
  std::int32_t max_queries_ = 0;
};

}  // namespace trunkline
