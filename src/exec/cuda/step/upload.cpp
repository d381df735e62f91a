#include "exec/cuda/step/upload.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/check.hpp"
#include "exec/live_rows.hpp"

namespace trunkline::cuda {
namespace {

template <class T>
void copy_list(const std::vector<T>& list, std::byte* to) {
  if (!list.empty()) std::memcpy(to, list.data(), list.size() * sizeof(T));
}

template <class T>
std::span<T> list_at(std::byte* base, std::size_t offset, std::size_t count) {
  return {reinterpret_cast<T*>(base + offset), count};
}

ListCounts counts_of(const Plan& plan) {
  return {.items = static_cast<std::int32_t>(plan.items.size()),
          .item_queries = static_cast<std::int32_t>(plan.item_queries.size()),
          .spans = static_cast<std::int32_t>(plan.spans.size()),
          .merges = static_cast<std::int32_t>(plan.merge_queries.size())};
}

void write_partial_merges(const Plan& plan, std::span<std::int32_t> to) {
  for (std::size_t merge = 0; merge < plan.merge_queries.size(); ++merge) {
    for (std::int32_t i = plan.merge_begin[merge]; i < plan.merge_begin[merge + 1]; ++i) {
      const std::int32_t slot = plan.merge_slots[static_cast<std::size_t>(i)];
      to[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(merge);
    }
  }
}

std::string text_of(const std::vector<TileShape>& tiles) {
  std::ostringstream text;
  for (const TileShape& tile : tiles) text << (text.tellp() > 0 ? ", " : "") << tile.m << " x " << tile.n;
  return text.str();
}

/// kernel_tile of one item after another, most of which have the tile of the one before.
class TileFinder {
 public:
  explicit TileFinder(const std::vector<TileShape>& tiles) : tiles_(tiles) {}
  int find(TileShape tile) {
    if (tile == last_) return found_;
    last_ = tile;
    found_ = kernel_tile(tiles_, tile);
    return found_;
  }

 private:
  const std::vector<TileShape>& tiles_;
  TileShape last_;
  int found_ = -1;
};

// Tiles of twice `half_rows` rows work as two halves, and no others.
void check_halves(const Plan& plan, std::size_t index, std::int32_t half_rows) {
  const WorkItem& item = plan.items[index];
  if (item.queries.size() == 0) return;
  const bool halves = half_rows > 0 && item.tile.m == 2 * half_rows;
  const std::int32_t larger = std::max(item.first_half, item.queries.size() - item.first_half);
  const bool fits =
      item.first_half <= item.queries.size() && std::int64_t{larger} * plan.shape.group_size() <= half_rows;
  if (halves == (item.first_half > 0) && (!halves || fits)) return;
  fail(ErrorCode::kUnsupported, "items[", index, "] of ", item.queries.size(), " queries has a tile of ", item.tile.m,
       " rows and a first half of ", item.first_half, " queries; the kernels have ",
       halves ? "two halves in such a tile, of " : "no halves in such a tile, of ", halves ? half_rows : item.tile.m,
       " rows; plan with cuda_profile()");
}

}  // namespace

int kernel_tile(const std::vector<TileShape>& tiles, TileShape tile) {
  int found = -1;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (tiles[i] == tile) return static_cast<int>(i);
    if (found < 0 && tiles[i].m == tile.m) found = static_cast<int>(i);
  }
  return found;
}

std::uint32_t used_tiles(const Plan& plan, const std::vector<TileShape>& tiles, std::int32_t half_rows) {
  std::uint32_t used = 0;
  TileFinder finder(tiles);
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const WorkItem& item = plan.items[i];
    const int tile = finder.find(item.tile);
    if (tile < 0) {
      fail(ErrorCode::kUnsupported, "items[", i, "].tile is ", item.tile.m, " x ", item.tile.n,
           "; compiled for head size ", plan.shape.head_dim_qk, ": ", text_of(tiles), "; plan with cuda_profile()");
    }
    if (item.queries.size() * plan.shape.group_size() > item.tile.m) {
      fail(ErrorCode::kUnsupported, "items[", i, "] has ", item.queries.size() * plan.shape.group_size(),
           " rows, more than its tile of ", item.tile.m);
    }
    check_halves(plan, i, half_rows);
    used |= std::uint32_t{1} << tile;
  }
  return used;
}

std::size_t upload_bytes(const Plan& plan, const WorkspaceLayout& layout) {
  return layout.masks + plan.masks.size() * sizeof(QueryMask);
}

void write_upload(const Plan& plan, const Batch& batch, const std::vector<TileShape>& tiles,
                  const WorkspaceLayout& layout, MergeMode merge, std::span<std::int32_t> slot_table, std::byte* to) {
  check_live_batch(plan, batch);
  const LiveRows rows(slot_table, batch);
  const auto queries = list_at<RowQuery>(to, layout.queries, plan.queries.size());
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const Query& query = plan.queries[i];
    const std::int32_t row = rows.row_of(query);
    queries[i] = {row, batch.query_begin(row) + query.token, query.from_end};
  }
  const auto spans = list_at<RowSpan>(to, layout.spans, plan.spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const KvSpan& span = plan.spans[i];
    spans[i] = {rows.row_of(span, i), span.begin, span.end, span.mask, span.flags};
  }
  const auto items = list_at<WorkItem>(to, layout.items, plan.items.size());
  TileFinder finder(tiles);
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i] = plan.items[i];
    items[i].tile = tiles[static_cast<std::size_t>(finder.find(items[i].tile))];
  }
  std::memset(to + layout.queues, 0, layout.counts - layout.queues);  // all counters
  list_at<ListCounts>(to, layout.counts, 1)[0] = counts_of(plan);
  copy_list(plan.item_queries, to + layout.item_queries);
  copy_list(plan.item_outputs, to + layout.item_outputs);
  copy_list(plan.merge_queries, to + layout.merge_queries);
  copy_list(plan.merge_begin, to + layout.merge_begin);
  copy_list(plan.merge_slots, to + layout.merge_slots);
  copy_list(plan.schedule, to + layout.schedule);
  copy_list(plan.masks, to + layout.masks);
  if (merge == MergeMode::kFused) {
    write_partial_merges(plan,
                         list_at<std::int32_t>(to, layout.partial_merges, static_cast<std::size_t>(plan.partials)));
  }
}

}  // namespace trunkline::cuda
