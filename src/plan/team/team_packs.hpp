// Packs of the chosen tiles by a team, and what each tile streams: what pack_trunk and TileSegments make.
#pragma once

#include <cstdint>

#include "plan/team/deal_order.hpp"
#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_more.hpp"
#include "plan/team/team_tiles.hpp"

namespace trunkline {

/// Tiles and packs by one block.
template <class Block>
class PackLister {
 public:
  TRUNKLINE_HOST_DEVICE PackLister(Block& block, const PlanTask& task) : block_(block), task_(task) {}

  /// The tiles of a try, how long their lists are, and their packs; then those of empty requests.
  TRUNKLINE_HOST_DEVICE void list_tiles(const TrunkChoice& choice, std::int32_t number) {
    const PlanMemory& memory = task_.memory;
    const std::int32_t rows = task_.forest.rows;
    std::int32_t* const tile_of = memory.tile_of;
    block_.each(rows, [tile_of](std::int32_t i) { tile_of[i] = 0; });
    const std::int32_t* const begins = memory.try_begins + number * (memory.rows + 1);
    const PlanTask& task = task_;
    block_.each(choice.tiles, [&task, &choice, begins](std::int32_t i) {
      fill_tile(task, choice.width, {begins[i], begins[i + 1]}, task.memory.tiles[i]);
      task.memory.tile_of[task.memory.tiles[i].members.begin] = 1;
    });
    number_tiles(choice.tiles);
    // Where the lists of segments begin.
    std::int32_t* const raw = memory.pack_begin;
    block_.each(choice.tiles, [&memory, raw](std::int32_t i) {
      const PlannedTile& tile = memory.tiles[i];
      const std::int32_t tails = memory.tails_before[tile.members.end] - memory.tails_before[tile.members.begin];
      raw[i] = tile.path + tile.last_node - tile.first_node + tails;
    });
    const std::int32_t raw_total = block_.scan_exclusive(raw, choice.tiles);
    const std::int32_t count = choice.tiles;
    block_.each(most(count, 1), [&memory, raw, raw_total, count](std::int32_t i) {
      if (i < count) {
        memory.tiles[i].raw_begin = raw[i];
        memory.tiles[i].raw_end = i + 1 == count ? raw_total : raw[i + 1];
      }
      if (i > 0) return;
      memory.shape[PlanMemory::kRaw] = raw_total;
      memory.shape[PlanMemory::kTiles] = count;
    });
    list_packs(count, false);
  }

  /// Packs of the tiles, and of requests alone. \param alone all requests are; else those without tokens
  TRUNKLINE_HOST_DEVICE void list_packs(std::int32_t tiles, bool alone) {
    const PlanMemory& memory = task_.memory;
    const TeamMachine& machine = task_.machine;
    std::int32_t* const begins = memory.pack_begin;
    const std::int32_t entries = tiles + task_.forest.rows;
    block_.each(entries, [&memory, &machine, begins, tiles, alone](std::int32_t i) {
      std::int32_t packs = 0;
      if (i < tiles) {
        const PlannedTile& tile = memory.tiles[i];
        packs = ceil_div(size_of(tile.positions), machine.widths[tile.width].max_queries);
      } else if (alone || memory.path_tokens[i - tiles] < 0) {
        packs = ceil_div(memory.queries[i - tiles], machine.max_queries());
      }
      begins[i] = packs;
    });
    const std::int32_t packs = block_.scan_exclusive(begins, entries);
    block_.each(entries, [&memory, &machine, begins, tiles, entries, packs](std::int32_t i) {
      const std::int32_t end = i + 1 == entries ? packs : begins[i + 1];
      if (begins[i] == end) return;
      const bool of_tile = i < tiles;
      const std::int32_t first = of_tile ? memory.tiles[i].positions.begin : memory.position[i - tiles];
      const std::int32_t all = of_tile ? size_of(memory.tiles[i].positions) : memory.queries[i - tiles];
      const std::int32_t room = of_tile ? machine.widths[memory.tiles[i].width].max_queries : machine.max_queries();
      // A request that alone is wider than a tile is spread over full ones, and what is left of it.
      for (std::int32_t pack = begins[i], done = 0; pack < end; ++pack, done += room) {
        const std::int32_t queries = least(room, all - done);
        PlannedPack& to = memory.packs[pack];
        to.tile = of_tile ? i : -1;
        to.order_index = of_tile ? 0 : i - tiles;
        to.positions = {first + done, first + done + queries};
        to.width = of_tile ? memory.tiles[i].width : machine.width_for(queries);
        to.first_half = machine.first_half(to.width, queries);
      }
    });
    block_.once([&memory, packs] { memory.shape[PlanMemory::kPacks] = packs; });
  }

 private:
  TRUNKLINE_HOST_DEVICE static void fill_tile(const PlanTask& task, std::int32_t width, Range listed,
                                              PlannedTile& tile) {
    const PlanMemory& memory = task.memory;
    const TeamMachine& machine = task.machine;
    const std::int32_t first = memory.try_orders[listed.begin];
    const std::int32_t last = memory.try_orders[listed.end - 1];
    tile.members = {first, last + 1};
    tile.positions = {memory.position[first], memory.position[last] + memory.queries[last]};
    tile.first_node = task.forest.node[task.forest.order[first]];
    tile.last_node = task.forest.node[task.forest.order[last]];
    tile.path = task.forest.nodes[tile.first_node].depth + 1;
    const std::int32_t queries = least(size_of(tile.positions), machine.widths[width].max_queries);
    const std::int32_t least_width = memory.shape[PlanMemory::kFirstWidth];
    const TrunkWidth& narrow =
        narrowed(machine.widths[width], queries, machine.widths + least_width, machine.width_count - least_width);
    tile.width = static_cast<std::int32_t>(&narrow - machine.widths);
    tile.middle = narrow.halves ? tile.positions.begin + machine.first_half(tile.width, queries) : 0;
  }

  /// The tile of each index of Forest::order; requests that no tile holds may lie between or behind its members.
  TRUNKLINE_HOST_DEVICE void number_tiles(std::int32_t tiles) {
    const PlanMemory& memory = task_.memory;
    const std::int32_t rows = task_.forest.rows;
    std::int32_t* const tile_of = memory.tile_of;
    block_.scan_exclusive(tile_of, rows);
    block_.each(rows, [&memory, tile_of, tiles](std::int32_t i) {
      // Of the tiles that begin before it the last, or the next, which begins at it.
      std::int32_t tile = tile_of[i] - 1;
      if (tile + 1 < tiles && memory.tiles[tile + 1].members.begin == i) ++tile;
      tile_of[i] = tile >= 0 && i < memory.tiles[tile].members.end ? tile : -1;
    });
  }

  Block& block_;
  const PlanTask& task_;
};

/// Queries of the request at an index of Forest::order, by position and by id.
TRUNKLINE_HOST_DEVICE inline void write_queries_of(const PlanTask& task, const PlanLists& lists, std::int32_t i) {
  const std::int32_t row = task.forest.order[i];
  const std::int32_t first = task.forest.query_begin[row];
  const std::int32_t queries = task.memory.queries[i];
  for (std::int32_t token = 0; token < queries; ++token) {
    task.memory.query_at[task.memory.position[i] + token] = first + token;
    lists.queries[first + token] = {row, first + token, queries - 1 - token};
  }
}

template <class Team>
TRUNKLINE_HOST_DEVICE void write_queries(Team& team, const PlanTask& task, const PlanLists& lists) {
  team.each(task.forest.rows, [&task, &lists](std::int32_t i) { write_queries_of(task, lists, i); });
}

/// Puts what each tile streams into order: the path of its first member, then nodes in depth-first order, each with the
/// ends of those requests that end where others go on. A node that others have begun before is met on the path alone.
/// Beside that, queries.
template <class Team>
TRUNKLINE_HOST_DEVICE void list_segments(Team& team, const PlanTask& task, const PlanLists& lists) {
  const std::int32_t nodes = task.forest.node_count;
  const std::int32_t rows = task.forest.rows;
  const std::int32_t tiles = task.memory.shape[PlanMemory::kTiles];
  team.each(nodes + rows + tiles + rows, [&task, &lists, nodes, rows, tiles](std::int32_t i) {
    const PlanMemory& memory = task.memory;
    if (i >= nodes + rows + tiles) {
      write_queries_of(task, lists, i - nodes - rows - tiles);
      return;
    }
    if (i >= nodes + rows) {
      const PlannedTile& tile = memory.tiles[i - nodes - rows];
      std::int32_t node = tile.first_node;
      for (std::int32_t k = tile.path; k-- > 0; node = task.forest.nodes[node].parent)
        memory.raw[tile.raw_begin + k] = node;
      return;
    }
    const std::int32_t member = i < nodes ? task.forest.nodes[i].requests.begin : i - nodes;
    const std::int32_t tile_index = memory.tile_of[member];
    if (tile_index < 0) return;
    const PlannedTile& tile = memory.tiles[tile_index];
    const std::int32_t tails = memory.tails_before[member] - memory.tails_before[tile.members.begin];
    if (i < nodes) {
      if (member > tile.members.begin) memory.raw[tile.raw_begin + tile.path + i - tile.first_node - 1 + tails] = i;
    } else if (memory.tails_before[member + 1] > memory.tails_before[member]) {
      const std::int32_t node = task.forest.node[task.forest.order[member]];
      memory.raw[tile.raw_begin + tile.path + node - tile.first_node + tails] = -1 - member;
    }
  });
}

/// Parts the segments of each tile into the lists that are dealt out. A warp a tile.
class SegmentLister {
 public:
  TRUNKLINE_HOST_DEVICE SegmentLister(const PlanTask& task, PlannedTile& tile) : task_(task), tile_(tile) {}

  template <class Lanes>
  TRUNKLINE_HOST_DEVICE void list(const Lanes& lanes) {
    // Where the tile works as one, nothing is to be gained by cutting what is its own.
    const std::int64_t own_piece = tile_.middle > 0 ? kOwnPiece : 0;
    const std::int64_t pieces[kTileLists] = {own_piece, own_piece, kCommonPiece};
    std::int64_t tokens[kTileLists] = {};
    std::int64_t fragments[kTileLists] = {};  // above 32 bits: masked ones
    std::int32_t counts[kTileLists] = {};
    std::int64_t matrix_tokens = 0;
    std::uint32_t ends_without_tokens = 0;  // bit by list: whether its last segment has none
    for (std::int32_t base = tile_.raw_begin; base < tile_.raw_end; base += lanes.count()) {
      const std::int32_t i = base + lanes.index();
      Found found{};
      found.list = kTileLists;
      if (i < tile_.raw_end) found = find(task_.memory.raw[i]);
      const std::int64_t length = found.segment.end - found.segment.begin;
      matrix_tokens += length * found.halves;
      for (std::int32_t list = 0; list < kTileLists; ++list) {
        const bool here = found.list == list;
        std::int64_t total = 0;
        std::int32_t total_count = 0;
        const std::int64_t first = tokens[list] + sum_before(lanes, here ? length : 0, total);
        const std::int32_t place = counts[list] + sum_before(lanes, here ? 1 : 0, total_count);
        const std::int64_t made = here ? DealOrder::count_fragments(first, first + length, pieces[list]) : 0;
        std::int64_t total_made = 0;
        const std::int64_t before =
            fragments[list] + sum_before(lanes, made + (found.segment.masked ? made << 32 : 0), total_made);
        if (here) {
          found.segment.first_token = first;
          found.segment.fragments_before = static_cast<std::int32_t>(before);
          found.segment.masked_before = static_cast<std::int32_t>(before >> 32);
          segments(list)[place] = found.segment;
        }
        const bool last = here && place + 1 == counts[list] + total_count;
        if (lanes.any(here)) {
          const bool empty = lanes.any(last && length == 0);
          ends_without_tokens = (ends_without_tokens & ~(1u << list)) | (empty ? 1u << list : 0u);
        }
        tokens[list] += total;
        counts[list] += total_count;
        fragments[list] += total_made;
      }
    }
    matrix_tokens = lanes.sum(matrix_tokens);
    if (lanes.index() != 0) return;
    tile_.tokens = 0;
    for (std::int32_t list = 0; list < kTileLists; ++list) {
      const bool empty_end = (ends_without_tokens >> list & 1) != 0;
      tile_.lists[list] = {segments(list),
                           tokens[list],
                           pieces[list],
                           DealOrder::count_pieces(tokens[list], pieces[list], counts[list], empty_end),
                           counts[list],
                           static_cast<std::int32_t>(fragments[list]),
                           static_cast<std::int32_t>(fragments[list] >> 32)};
      tile_.tokens += tokens[list];
    }
    tile_.matrix_tokens = matrix_tokens;
  }

 private:
  // As in trunk_segments.cpp.
  static constexpr std::int64_t kCommonPiece = 64;
  static constexpr std::int64_t kOwnPiece = HalfChanges::kPieceTokens;

  struct Found {
    TileSegment segment;
    std::int32_t list;
    std::int32_t halves;  ///< of the tile that see it; 1 where it works as one
  };

  TRUNKLINE_HOST_DEVICE TileSegment* segments(std::int32_t list) const {
    return task_.memory.segments + std::int64_t{list} * task_.machine.capacity.spans + tile_.raw_begin;
  }

  /// \param raw as in PlanMemory::raw
  TRUNKLINE_HOST_DEVICE Found find(std::int32_t raw) const {
    const PlanMemory& memory = task_.memory;
    Found found{};
    TileSegment& segment = found.segment;
    bool common = false;
    if (raw < 0) {
      const std::int32_t member = -1 - raw;
      segment.row = task_.forest.order[member];
      segment.begin = segment.end = memory.path_tokens[member];
      segment.readers = positions({member, member + 1});
      segment.open_ended = true;
    } else {
      const ForestNode& node = task_.forest.nodes[raw];
      const Range requests = node.requests;
      segment.open_ended = size_of(requests) == 1;
      segment.row = segment.open_ended ? task_.forest.order[requests.begin] : node.row;
      segment.begin = node.begin;
      segment.end = node.end;
      segment.readers = positions(requests);
      common = !segment.open_ended && is_common(requests, segment.readers);
    }
    const Range held = tile_.positions;
    segment.masked = segment.readers.begin > held.begin || segment.readers.end < held.end;
    const bool second = tile_.middle > 0 && segment.readers.begin >= tile_.middle;
    found.list = common ? kCommonList : second ? kOwnOfSecondList : kOwnList;
    found.halves = tile_.middle == 0 ? 1 : halves_of(segment.readers, held, tile_.middle);
    return found;
  }

 public:
  /// Halves of a pack that some readers are in. \param held positions of its queries \param middle of its second half
  TRUNKLINE_HOST_DEVICE static std::int32_t halves_of(Range readers, Range held, std::int32_t middle) {
    const bool first = most(readers.begin, held.begin) < least(readers.end, middle);
    const bool second = most(readers.begin, middle) < least(readers.end, held.end);
    return (first ? 1 : 0) + (second ? 1 : 0);
  }

 private:
  TRUNKLINE_HOST_DEVICE Range positions(Range requests) const {
    return {task_.memory.position[requests.begin], task_.memory.position[requests.end]};
  }
  /// TileSegments::in_common.
  TRUNKLINE_HOST_DEVICE bool is_common(Range requests, Range readers) const {
    if (tile_.middle > 0) return readers.begin < tile_.middle && tile_.middle < readers.end;
    return requests.begin < tile_.members.begin || tile_.members.end < requests.end;
  }

  const PlanTask& task_;
  PlannedTile& tile_;
};

template <class Team>
TRUNKLINE_HOST_DEVICE void deal_lists(Team& team, const PlanTask& task) {
  team.each_warp(task.memory.shape[PlanMemory::kTiles],
                 [&task](std::int32_t i, auto&& lanes) { SegmentLister(task, task.memory.tiles[i]).list(lanes); });
}

}  // namespace trunkline
