// The load of an item in which every query attends to every token.
#pragma once

#include <cstdint>

#include "plan/cut_choice.hpp"
#include "plan/task_costs.hpp"
#include "plan/tiles.hpp"

namespace trunkline {

/// The part of an item's load that does not depend on the tokens.
struct ItemRows {
  std::int32_t queries = 0;
  std::int32_t rows = 0;     ///< computed for each matrix token
  bool both_halves = false;  ///< the tile works as two halves, which both have queries

  /// \param merged how many of the queries have partials in other items too
  TaskLoad load(std::int64_t tokens, std::int32_t merged) const {
    return {tokens, both_halves ? 2 * tokens : tokens, rows, queries, merged};
  }
};

/// \param queries no more than fit an item
inline ItemRows item_rows(std::int32_t queries, const TileTable& tiles, const TaskCosts& costs) {
  const std::int32_t tile_rows = tiles.rows(queries, 0);
  const std::int32_t half = tiles.first_half(tile_rows, queries);
  return {queries, costs.rows(queries, tile_rows, half > 0), half > 0 && half < queries};
}

}  // namespace trunkline
