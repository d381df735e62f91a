// The load of an item all of whose queries see all of its tokens.
#pragma once

#include <cstdint>

#include "plan/cut_choice.hpp"
#include "plan/task_costs.hpp"
#include "plan/tiles.hpp"

namespace trunkline {

/// \param queries no more than fit an item
/// \param merged how many of them have partials in other items too
inline TaskLoad load_of(std::int64_t tokens, std::int32_t queries, std::int32_t merged, const TileTable& tiles,
                        const TaskCosts& costs) {
  const std::int32_t tile_rows = tiles.rows(queries, 0);
  const std::int32_t half = tiles.first_half(tile_rows, queries);
  const std::int64_t matrix_tokens = half > 0 && half < queries ? 2 * tokens : tokens;
  return {tokens, matrix_tokens, costs.rows(queries, tile_rows, half > 0), queries, merged};
}

}  // namespace trunkline
