// Times of equal items in tiles of all heights, and what follows from them: the cost table, the selector's thresholds,
// and whether rounding rows up to the next tile is right (PAT, section 5.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <vector>

#include "trunkline/machine.hpp"

namespace trunkline::cli {

/// Time that a run of tokens takes one worker for one KV head, by the rows that read it, its tokens, and the tile that
/// all items are made to use; rows beyond a tile's height read it again.
struct TileTimes {
  std::vector<std::int32_t> rows;    ///< rising
  std::vector<std::int32_t> tokens;  ///< rising
  std::vector<TileShape> tiles;      ///< by rising m, then n
  std::vector<double> us;            ///< [rows, tokens, tiles]

  double at(std::size_t row, std::size_t token, std::size_t tile) const {
    return us[(row * tokens.size() + token) * tiles.size() + tile];
  }
};

/// The first tile that is as tall as an item; the tallest where none is.
std::size_t rounded_up_tile(const std::vector<TileShape>& tiles, std::int32_t rows);

/// C(rows, tokens) in the tiles that rounding up gives.
CostTable cost_table_of(const TileTimes& times, std::int32_t head_dim);

/// derive_tile_steps over the n of the tallest m, for items that fill it. One step where that has one n.
std::vector<TileStep> tile_steps_of(const TileTimes& times);

/// How far rounding up is from the fastest tile.
struct RoundingUp {
  std::size_t points = 0;
  std::size_t fastest = 0;  ///< points where it is within 2 % of the fastest, which the sweep cannot resolve
  double max_lost = 0;      ///< as a share of the fastest's time
};
RoundingUp rounding_up(const TileTimes& times);

void print_tile_times(std::ostream& out, const TileTimes& times);

}  // namespace trunkline::cli
