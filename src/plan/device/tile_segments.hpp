// Lists the KV segments of one tile of `trunk`: the segments that any of its requests needs, interleaved. Equal to
// policies/trunk_segments.cpp. One thread group for each tile.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/forest_layout.hpp"
#include "plan/device/interleave.hpp"
#include "plan/device/packs.hpp"
#include "plan/device/requests.hpp"
#include "plan/device/thread_group.hpp"
#include "plan/device/tile_search.hpp"

namespace trunkline {

/// Memory from which tiles allocate their segments, in any order.
struct SegmentPool {
  std::int32_t* used_segments = nullptr;     // [1]
  std::int32_t* used_kv_segments = nullptr;  // [1]
  TileSegment* segments = nullptr;           // [capacity]
  std::int32_t* by_place = nullptr;          // [kSegmentLists, capacity]
  KvSegment* kv_segments = nullptr;       // [capacity + rows] of tiles, then of requests that are packs by themselves
  std::int32_t* first_segment = nullptr;  // [rows] first segment of each tile
  std::int32_t capacity = 0;

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows, std::int32_t spans) {
    capacity = spans;
    arena.take(segments, spans);
    arena.take(kv_segments, std::int64_t{spans} + rows);
    arena.take(by_place, std::int64_t{kSegmentLists} * spans);
    arena.take(first_segment, rows);
    arena.take(used_segments, 1);
    arena.take(used_kv_segments, 1);
  }
  /// Returns the index of the KV segment of a request that is a pack by itself. \param place in DeviceForest::order
  TRUNKLINE_HOST_DEVICE std::int32_t single(std::int32_t place) const { return capacity + place; }
};

/// Memory of one thread group for a tile of at most kCapacity segments.
struct TileScratch {
  static constexpr std::int32_t kCapacity = 256;

  TileSegment* segments = nullptr;   // [kCapacity]
  std::int32_t* by_place = nullptr;  // [kSegmentLists, kCapacity]

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena) {
    arena.take(segments, kCapacity);
    arena.take(by_place, kSegmentLists * kCapacity);
  }
};

class TileLister {
 public:
  TRUNKLINE_HOST_DEVICE TileLister(const PlannerMachine& machine, const DeviceForest& forest,
                                   const DeviceRequests& requests, const BatchTiles& tiles, const SegmentPool& pool,
                                   const TileScratch& scratch)
      : machine_(machine), forest_(forest), requests_(requests), tiles_(tiles), pool_(pool), scratch_(scratch) {}

  /// \param chosen the best try \param begins first request of each of its tiles
  /// \param[out] to its kv_segments is -1 if the pool is too small
  template <class Group>
  TRUNKLINE_HOST_DEVICE void list(Group& group, const TrunkFill& chosen, const std::int32_t* begins, std::int32_t tile,
                                  PackGroup& to) const {
    const Tile at = find_tile(chosen, begins[tile], begins[tile + 1]);
    const std::int32_t visits = at.path + at.last_node - at.first_node;
    const std::int32_t count = sum(group, visits, [&](std::int32_t i) { return segments_at(at, i); });
    group.once([&] { pool_.first_segment[tile] = Group::fetch_add(*pool_.used_segments, count); });
    const std::int32_t first = pool_.first_segment[tile];
    if (first > pool_.capacity - count) return group.once([&] { to.kv_segments = -1; });
    const bool fits_scratch = count <= TileScratch::kCapacity;
    TileSegment* const segments = fits_scratch ? scratch_.segments : pool_.segments + first;
    group.exclusive_scan(
        visits, [&](std::int32_t i) { return segments_at(at, i); },
        [&](std::int32_t i, std::int32_t before) { write_segments(at, node_at(at, i), segments + before); });
    std::int32_t* const by_place = fits_scratch ? scratch_.by_place : pool_.by_place + first;
    const std::int32_t stride = fits_scratch ? TileScratch::kCapacity : pool_.capacity;
    const Interleaving order = list_segments(group, at, segments, count, by_place, stride);
    const std::int32_t kv_segments =
        order.lists[0].kv_segments + order.lists[1].kv_segments + order.lists[2].kv_segments;
    sum_up(group, at, order, segments, count, to);
    group.once([&] { to.first_kv_segment = Group::fetch_add(*pool_.used_kv_segments, kv_segments); });
    const std::int32_t first_kv_segment = to.first_kv_segment;
    if (first_kv_segment > pool_.capacity - kv_segments) return group.once([&] { to.kv_segments = -1; });
    group.for_each(kv_segments, [&](std::int32_t i) {
      std::int32_t list = 0;
      for (; i >= order.lists[list].kv_segments; ++list) i -= order.lists[list].kv_segments;
      const TileSegment& segment = order.lists[list].segment_of(i);
      write_kv_segment(order, segment, i - segment.kv_segments_before, pool_.kv_segments + first_kv_segment);
    });
    group.once([&] { to.kv_segments = kv_segments; });
  }

 private:
  struct Tile {
    Range members;            ///< range of DeviceForest::order
    Range positions;          ///< range of the positions of their queries
    std::int32_t width = 0;   ///< index in BatchTiles::widths
    std::int32_t middle = 0;  ///< position of the second half's first query; 0: the tile works as one
    // The nodes of the tile: the path of the first member, and the nodes that later members add.
    std::int32_t end_node = 0;
    std::int32_t path = 0;
    std::int32_t first_node = 0;
    std::int32_t last_node = 0;

    TRUNKLINE_HOST_DEVICE bool in_first(Range readers) const {
      return max(readers.begin, positions.begin) < min(readers.end, middle);
    }
    TRUNKLINE_HOST_DEVICE bool in_second(Range readers) const {
      return max(readers.begin, middle) < min(readers.end, positions.end);
    }
    /// Returns the number of halves to which a segment is visible; 1 if the tile works as one.
    TRUNKLINE_HOST_DEVICE std::int32_t halves(Range readers) const {
      if (middle == 0) return 1;
      return (in_first(readers) ? 1 : 0) + (in_second(readers) ? 1 : 0);
    }
  };

  TRUNKLINE_HOST_DEVICE Tile find_tile(const TrunkFill& chosen, std::int32_t begin, std::int32_t end) const {
    Tile tile;
    tile.members = {requests_.place[begin], requests_.place[end - 1] + 1};
    tile.positions = requests_.positions(tile.members);
    const std::int32_t queries =
        min(requests_.query_begin[end] - requests_.query_begin[begin], chosen.limited(tiles_.widths).max_queries);
    const TrunkWidth& width = narrowed(tiles_.widths[chosen.width], queries, tiles_.widths, tiles_.count);
    tile.width = static_cast<std::int32_t>(&width - tiles_.widths);
    tile.middle = width.halves ? tile.positions.begin + queries - queries / 2 : 0;
    tile.end_node = forest_.node[forest_.order[tile.members.begin]];
    tile.path = forest_.nodes[tile.end_node].depth + 1;
    const auto nodes_until = [&](std::int32_t place) {
      return partition_point(0, forest_.node_count,
                             [&](std::int32_t i) { return forest_.nodes[i].requests.begin < place; });
    };
    tile.first_node = nodes_until(tile.members.begin + 1);
    tile.last_node = max(nodes_until(tile.members.end), tile.first_node);
    return tile;
  }
  /// Returns the i-th node that a tile streams: first the path from the root, then the others in pre-order.
  TRUNKLINE_HOST_DEVICE std::int32_t node_at(const Tile& tile, std::int32_t i) const {
    if (i >= tile.path) return tile.first_node + i - tile.path;
    std::int32_t node = tile.end_node;
    TRUNKLINE_ROLLED
    for (std::int32_t up = tile.path - 1 - i; up > 0; --up) node = forest_.nodes[node].parent;
    return node;
  }
  /// Returns the members that end in a shared node: each has an empty open-ended segment there.
  TRUNKLINE_HOST_DEVICE Range ends_at(const Tile& tile, std::int32_t index) const {
    const Range requests = forest_.nodes[index].requests;
    if (requests.end - requests.begin == 1) return {0, 0};
    const Range ending = forest_.ending_at(index);
    const std::int32_t begin = max(ending.begin, tile.members.begin);
    return {begin, max(min(ending.end, tile.members.end), begin)};
  }

  TRUNKLINE_HOST_DEVICE std::int32_t segments_at(const Tile& tile, std::int32_t i) const {
    const Range ends = ends_at(tile, node_at(tile, i));
    return 1 + ends.end - ends.begin;
  }

  TRUNKLINE_HOST_DEVICE void write_segments(const Tile& tile, std::int32_t index, TileSegment* to) const {
    const ForestNode& node = forest_.nodes[index];
    const bool alone = node.requests.end - node.requests.begin == 1;
    TileSegment segment;
    segment.row = alone ? forest_.order[node.requests.begin] : node.row;
    segment.begin = node.begin;
    segment.end = node.end;
    segment.readers = requests_.positions(node.requests);
    segment.open_ended = alone;
    segment.list =
        !alone && is_common(tile, node.requests, segment.readers) ? kCommonSegments : own_list(tile, segment.readers);
    segment.room = machine_.slices.room(segment.begin, segment.end);
    *to++ = segment;
    const Range ends = ends_at(tile, index);
    TRUNKLINE_ROLLED
    for (std::int32_t i = ends.begin; i < ends.end; ++i) {
      segment.row = forest_.order[i];
      segment.begin = segment.end = forest_.kv_len[segment.row];
      segment.readers = requests_.positions({i, i + 1});
      segment.open_ended = true;
      segment.list = own_list(tile, segment.readers);
      segment.room = 0;
      *to++ = segment;
    }
  }
  TRUNKLINE_HOST_DEVICE static SegmentList own_list(const Tile& tile, Range readers) {
    return tile.middle > 0 && readers.begin >= tile.middle ? kSecondSegments : kOwnSegments;
  }
  /// Whether both halves or other tiles stream a node as well, so that its tokens come from the cache.
  TRUNKLINE_HOST_DEVICE static bool is_common(const Tile& tile, Range requests, Range readers) {
    if (tile.middle > 0) return readers.begin < tile.middle && tile.middle < readers.end;
    return requests.begin < tile.members.begin || tile.members.end < requests.end;
  }

  struct ListSums {
    std::int64_t tokens[kSegmentLists] = {};
    std::int32_t count[kSegmentLists] = {};

    TRUNKLINE_HOST_DEVICE friend ListSums operator+(ListSums a, const ListSums& b) {
      for (std::int32_t i = 0; i < kSegmentLists; ++i) {
        a.tokens[i] += b.tokens[i];
        a.count[i] += b.count[i];
      }
      return a;
    }
  };

  /// Numbers the segments of each list. \param stride between the lists of by_place
  template <class Group>
  TRUNKLINE_HOST_DEVICE Interleaving list_segments(Group& group, const Tile& tile, TileSegment* segments,
                                                   std::int32_t count, std::int32_t* places,
                                                   std::int64_t stride) const {
    const auto by_place = [&](std::int32_t list) { return places + list * stride; };
    const ListSums all = group.exclusive_scan(
        count,
        [&](std::int32_t i) {
          ListSums one;
          one.tokens[segments[i].list] = segments[i].room;
          one.count[segments[i].list] = 1;
          return one;
        },
        [&](std::int32_t i, const ListSums& before) {
          TileSegment& segment = segments[i];
          segment.first_token = before.tokens[segment.list];
          segment.place = before.count[segment.list];
          by_place(segment.list)[segment.place] = i;
        });
    Interleaving order;
    for (std::int32_t i = 0; i < kSegmentLists; ++i) {
      InterleavedList& list = order.lists[i];
      list.segments = segments;
      list.by_place = by_place(i);
      list.tokens = all.tokens[i];
      list.count = all.count[i];
      // If the tile works as one, cutting its own segments gains nothing.
      list.chunk_bits = i == kCommonSegments ? machine_.common_chunk_bits
                        : tile.middle > 0    ? machine_.costs.half_chunk_bits
                                             : -1;
    }
    const auto kv_segments_of = [&](std::int32_t i) {
      return order.lists[segments[i].list].kv_segments_in(segments[i]);
    };
    const ListSums kv_segments = group.exclusive_scan(
        count,
        [&](std::int32_t i) {
          ListSums one;
          one.count[segments[i].list] = kv_segments_of(i);
          return one;
        },
        [&](std::int32_t i, const ListSums& before) {
          segments[i].kv_segments_before = before.count[segments[i].list];
        });
    for (std::int32_t i = 0; i < kSegmentLists; ++i) order.lists[i].kv_segments = kv_segments.count[i];
    return order;
  }

  struct Sums {
    std::int64_t tokens = 0;
    std::int64_t matrix_tokens = 0;
    std::int64_t open_tokens = 0;
    std::int32_t masked = 0;

    TRUNKLINE_HOST_DEVICE friend Sums operator+(const Sums& a, const Sums& b) {
      return {a.tokens + b.tokens, a.matrix_tokens + b.matrix_tokens, a.open_tokens + b.open_tokens,
              a.masked + b.masked};
    }
  };

  template <class Group>
  TRUNKLINE_HOST_DEVICE void sum_up(Group& group, const Tile& tile, const Interleaving& order,
                                    const TileSegment* segments, std::int32_t count, PackGroup& to) const {
    const Sums sums = sum(group, count, [&](std::int32_t i) {
      const TileSegment& segment = segments[i];
      const std::int64_t tokens = std::int64_t{segment.end} - segment.begin;
      const bool masked = segment.readers.begin > tile.positions.begin || segment.readers.end < tile.positions.end;
      return Sums{tokens, tokens * tile.halves(segment.readers), segment.open_ended ? tokens : 0,
                  masked ? order.lists[segment.list].kv_segments_in(segment) : 0};
    });
    group.once([&] {
      to = PackGroup{};
      to.positions = tile.positions;
      to.width = tiles_.first + tile.width;
      to.max_queries = tiles_.widths[tile.width].max_queries;
      to.uniform = tile.positions.end - tile.positions.begin > to.max_queries;
      to.sliced = true;
      to.masked = sums.masked;
      to.tokens = sums.tokens;
      to.matrix_tokens = sums.matrix_tokens;
      for (const InterleavedList& list : order.lists) to.cut_tokens += list.tokens;
      to.members = tile.members.end - tile.members.begin;
      const std::int32_t half_chunk = tile.middle > 0 ? 1 << machine_.costs.half_chunk_bits : 0;
      to.own_chunk = order.lists[kCommonSegments].tokens == 0 ? -1 : half_chunk;
      to.open_tokens = sums.open_tokens;
    });
  }

  TRUNKLINE_HOST_DEVICE void write_kv_segment(const Interleaving& order, const TileSegment& segment,
                                              std::int32_t number, KvSegment* to) const {
    const InterleavedList& list = order.lists[segment.list];
    const std::int64_t segment_end = segment.first_token + segment.room;
    std::int64_t begin = segment.first_token;
    std::int64_t end = segment_end;
    if (list.chunk_bits >= 0) {
      const std::int64_t chunk = list.chunk_of(segment.first_token) + number;
      if (number > 0) begin = list.first_of(chunk);
      end = min(end, list.first_of(chunk + 1));
    }
    const Interleaving::Place place = order.place_of(segment, number, begin);
    KvSegment kv_segment;
    kv_segment.first_token = place.first_token;
    kv_segment.length = end - begin;
    kv_segment.row = segment.row;
    kv_segment.begin = machine_.slices.place(segment.begin, begin - segment.first_token);
    const bool last = end == segment_end;
    kv_segment.end = last ? segment.end : machine_.slices.place(segment.begin, end - segment.first_token);
    kv_segment.readers = segment.readers;
    kv_segment.open_ended = segment.open_ended && last;
    to[place.rank] = kv_segment;
  }

  const PlannerMachine& machine_;
  const DeviceForest& forest_;
  const DeviceRequests& requests_;
  const BatchTiles& tiles_;
  const SegmentPool& pool_;
  const TileScratch& scratch_;
};

}  // namespace trunkline
