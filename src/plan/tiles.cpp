#include "plan/tiles.hpp"

#include <algorithm>
#include <tuple>

#include "base/check.hpp"

namespace trunkline {

void TileTable::reset(const std::vector<TileShape>& tiles, std::int32_t group_size) {
  tiles_.assign(tiles.begin(), tiles.end());
  std::sort(tiles_.begin(), tiles_.end(),
            [](const TileShape& a, const TileShape& b) { return std::tie(a.m, a.n) < std::tie(b.m, b.n); });
  max_queries_ = std::min(kMaxItemQueries, tiles_.back().m / group_size);
  if (max_queries_ == 0) {
    fail(ErrorCode::kUnsupported, "shape has ", group_size,
         " query heads per KV head, but the profile's largest tile has m = ", tiles_.back().m,
         "; one query's rows must fit a tile");
  }
  std::size_t tile = 0;
  for (std::int32_t queries = 0; queries <= max_queries_; ++queries) {
    while (tiles_[tile].m < queries * group_size) ++tile;
    first_[static_cast<std::size_t>(queries)] = tile;
  }
}

}  // namespace trunkline
