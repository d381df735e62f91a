#include "plan/tiles.hpp"

#include <algorithm>
#include <tuple>

#include "base/check.hpp"

namespace trunkline {
namespace {

/// The n that a profile wants for lengths from `tokens` on; the largest that they fill where it does not say.
std::int64_t wanted_n(const MachineProfile& profile, std::int64_t tokens) {
  if (profile.tile_steps.empty()) return tokens;
  std::int64_t n = profile.tile_steps.front().n;
  for (const TileStep& step : profile.tile_steps) {
    if (step.tokens <= tokens) n = step.n;
  }
  return n;
}

void keep_only(TileShape fixed, std::vector<TileShape>& tiles) {
  if (std::find(tiles.begin(), tiles.end(), fixed) == tiles.end()) {
    std::string known;
    for (const TileShape& tile : tiles) known += concat(known.empty() ? "" : ", ", tile.m, "x", tile.n);
    fail(ErrorCode::kInvalidArgument, "options.tile is ", fixed.m, "x", fixed.n, "; the profile has ", known);
  }
  tiles.assign(1, fixed);
}

}  // namespace

void TileTable::reset(const MachineProfile& profile, std::int32_t group_size, TileShape fixed) {
  tiles_.assign(profile.tiles.begin(), profile.tiles.end());
  if (fixed != TileShape{}) keep_only(fixed, tiles_);
  std::sort(tiles_.begin(), tiles_.end(),
            [](const TileShape& a, const TileShape& b) { return std::tie(a.m, a.n) < std::tie(b.m, b.n); });
  half_rows_ = profile.half_rows;
  half_queries_ = half_rows_ / group_size;
  heights_.clear();
  row_choices_.clear();
  std::int32_t last_m = 0;
  for (const TileShape& tile : tiles_) {
    if (tile.m != last_m) add_height(profile, tile.m, group_size);
    last_m = tile.m;
  }
  max_queries_ = heights_.empty() ? 0 : heights_.back().queries;
  if (max_queries_ == 0) {
    fail(ErrorCode::kUnsupported, "shape has ", group_size,
         " query heads per KV head, but the profile's largest tile has m = ", tiles_.back().m,
         "; one query's rows must fit a tile");
  }
  std::size_t height = 0;
  for (std::int32_t queries = 0; queries <= max_queries_; ++queries) {
    while (heights_[height].queries < queries) ++height;
    first_[static_cast<std::size_t>(queries)] = height;
  }
}

void TileTable::add_height(const MachineProfile& profile, std::int32_t m, std::int32_t group_size) {
  const bool halves = half_rows_ > 0 && m == 2 * half_rows_;
  Height height;
  height.m = m;
  height.queries = std::min(kMaxItemQueries, halves ? 2 * half_queries_ : m / group_size);
  for (int length = 0; length < kLengths; ++length) {
    const std::int64_t wanted = wanted_n(profile, length == 0 ? 0 : std::int64_t{1} << (length - 1));
    for (const TileShape& tile : tiles_) {
      std::int32_t& n = height.n[static_cast<std::size_t>(length)];
      if (tile.m == m && (n == 0 || tile.n <= wanted)) n = tile.n;
    }
  }
  // A height that holds no query, or fewer than a lower one because its halves hold none in part, is as good as not
  // there.
  if (height.queries == 0 || (!heights_.empty() && height.queries < heights_.back().queries)) return;
  heights_.push_back(height);
  row_choices_.push_back(m);
}

std::int32_t TileTable::uniform_rows() const {
  std::int32_t rows = row_choices_.back();
  for (const std::int32_t m : row_choices_) {
    if (half_rows_ == 0 || m != 2 * half_rows_) rows = m;
  }
  return rows;
}

std::int32_t max_item_queries(const MachineProfile& profile, std::int32_t group_size) {
  TileTable tiles;
  tiles.reset(profile, group_size);
  return tiles.max_queries();
}

}  // namespace trunkline
