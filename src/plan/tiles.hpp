// Which kernel tile an item gets.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// A profile's tiles for one group size. A lookup takes constant time (PAT, section 5.2: m by rounding up, n by a
/// decision tree over the tokens, whose thresholds are powers of two).
class TileTable {
 public:
  /// \param fixed the only tile; 0 x 0: all of the profile's.
  /// \throws Error(kUnsupported) when a single query has more rows than the largest tile, Error(kInvalidArgument) when
  /// the profile has no tile `fixed`.
  void reset(const MachineProfile& profile, std::int32_t group_size, TileShape fixed = {});

  /// Queries that fit the largest tile, at most kMaxItemQueries.
  std::int32_t max_queries() const { return max_queries_; }
  /// Queries that fit a tile of the smallest m that is no less than this, or of the largest; 0: of the largest.
  std::int32_t max_queries(std::int32_t m) const { return m == 0 ? max_queries_ : heights_[height_of(m)].queries; }
  /// Rows of the tile of a pack: the smallest m that holds its queries and is no less than `m`.
  std::int32_t rows(std::int32_t queries, std::int32_t m) const { return heights_[height(queries, m)].m; }
  /// The tile of an item: of the kernels with its rows, the n that its tokens call for.
  TileShape tile(std::int32_t queries, std::int64_t tokens, std::int32_t m) const {
    return tile_at(height(queries, m), tokens);
  }
  /// The same of a pack whose tile has m rows.
  TileShape tile_of_rows(std::int32_t m, std::int64_t tokens) const { return tile_at(height_of(m), tokens); }
  /// Queries of the first half of a tile of `rows` rows that works as two, so that both have as much to do; 0 where it
  /// works as one.
  std::int32_t first_half(std::int32_t rows, std::int32_t queries) const {
    return half_rows_ > 0 && rows == 2 * half_rows_ ? queries - queries / 2 : 0;
  }
  /// Rows of each half of a tile that works as two; 0: no tile does.
  std::int32_t half_rows() const { return half_rows_; }
  /// The m for items whose tile may not depend on their queries: the largest whose tile works as one, since a tile that
  /// works as two adds up in another order for an item of few queries; the largest of all where each works as two.
  std::int32_t uniform_rows() const;
  /// The m of all tiles, rising.
  const std::vector<std::int32_t>& row_choices() const { return row_choices_; }

 private:
  static constexpr int kLengths = 33;  // by bit_width of the tokens: 0, 1, 2 to 3, 4 to 7, ...

  /// All tiles of one m.
  struct Height {
    std::int32_t m = 0;
    std::int32_t queries = 0;
    std::array<std::int32_t, kLengths> n{};
  };

  /// The smallest height of no less than m rows, or the largest: profiles have few.
  std::size_t height_of(std::int32_t m) const {
    std::size_t height = 0;
    while (height + 1 < row_choices_.size() && row_choices_[height] < m) ++height;
    return height;
  }
  TileShape tile_at(std::size_t height, std::int64_t tokens) const {
    const auto length = std::bit_width(static_cast<std::uint64_t>(tokens));
    const auto step = static_cast<std::size_t>(length < kLengths ? length : kLengths - 1);
    return {heights_[height].m, heights_[height].n[step]};
  }
  std::size_t height(std::int32_t queries, std::int32_t m) const {
    const std::size_t smallest = first_[static_cast<std::size_t>(queries)];
    if (m == 0) return smallest;
    const std::size_t wanted = height_of(m);
    return wanted > smallest ? wanted : smallest;
  }
  void add_height(const MachineProfile& profile, std::int32_t m, std::int32_t group_size);

  std::vector<TileShape> tiles_;                          // by rising m, then n
  std::vector<Height> heights_;                           // by rising m
  std::vector<std::int32_t> row_choices_;                 // m of each height
  std::array<std::size_t, kMaxItemQueries + 1> first_{};  // by queries: the smallest height that holds them
  std::int32_t max_queries_ = 0;
  std::int32_t half_rows_ = 0;
  std::int32_t half_queries_ = 0;
};

}  // namespace trunkline
