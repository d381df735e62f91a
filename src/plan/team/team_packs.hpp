// Packs of the chosen tiles by a team, and what each tile streams, as pack_trunk makes them.
#pragma once

#include <cstdint>

#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_tiles.hpp"

namespace trunkline {

/// Tiles and packs by one block.
template <class Block>
class PackLister {
 public:
  TRUNKLINE_HOST_DEVICE PackLister(Block& block, const PlanTask& task) : block_(block), task_(task) {}

  /// The tiles of a try, how long their lists are, and their packs; then those of empty requests.
  TRUNKLINE_HOST_DEVICE void list_tiles(const TrunkChoice& choice, std::int32_t number) {
    const PlanTask& task = task_;
    const PlanMemory& memory = task_.memory;
    const std::int32_t* const begins = memory.try_begins + number * (memory.rows + 1);
    const std::int32_t count = choice.tiles;
    const std::int32_t width = choice.width;
    constexpr std::int32_t kLanes = 16;  // that share a tile's members
    std::int64_t* const sums = task_.block.listed;
    block_.each(count + (count + 1) * kLanes, [&task, sums, begins, count, width, number](std::int32_t index) {
      const PlanMemory& to = task.memory;
      if (index == count) keep_cuts(task, number);
      if (index < count) {
        const TileFrame tile = frame_of(task, width, {begins[index], begins[index + 1]});
        static_cast<TileFrame&>(to.tiles[index]) = tile;
        sums[index] = segments_of(to, tile) + (std::int64_t{packs_of(task, tile)} << 32);
        return;
      }
      const std::int32_t i = (index - count) / kLanes;
      const std::int32_t lane = (index - count) % kLanes;
      const std::int32_t before = i == 0 ? -1 : order_of(task, begins[i - 1]);
      const std::int32_t begin = i == count ? task.forest.rows : order_of(task, begins[i]);
      for (std::int32_t k = before + 1 + lane; k <= begin; k += kLanes) to.tiles_from[k] = i;
    });
    const std::int64_t all = block_.scan_exclusive(sums, count);
    const auto packs = static_cast<std::int32_t>(all >> 32);
    block_.each(most(count, 1), [&task, sums, count, all, packs](std::int32_t i) {
      const PlanMemory& to = task.memory;
      if (i < count) {
        PlannedTile& tile = to.tiles[i];
        tile.raw_begin = static_cast<std::int32_t>(sums[i]);
        tile.raw_end = static_cast<std::int32_t>(i + 1 == count ? all : sums[i + 1]);
        const Undivided pack{i, 0, tile.positions, tile.width};
        spread(task, pack, task.machine.widths[tile.width].max_queries, static_cast<std::int32_t>(sums[i] >> 32));
      }
      if (i > 0) return;
      to.shape[PlanMemory::kRaw] = static_cast<std::int32_t>(all);
      to.shape[PlanMemory::kTiles] = count;
      to.shape[PlanMemory::kPacks] = packs;
    });
    const std::int32_t full = memory.shape[PlanMemory::kFull];
    if (full < task_.forest.rows) list_alone(full, packs);
  }

  /// Packs of requests alone, from an index of Forest::order on. \param packs before them
  TRUNKLINE_HOST_DEVICE void list_alone(std::int32_t first, std::int32_t packs) {
    const PlanTask& task = task_;
    const PlanMemory& memory = task_.memory;
    std::int32_t* const begins = memory.pack_begin;
    const std::int32_t count = task_.forest.rows - first;
    block_.each(count, [&task, begins, first](std::int32_t i) {
      begins[i] = ceil_div(task.memory.queries[first + i], task.machine.max_queries());
    });
    const std::int32_t added = block_.scan_exclusive(begins, count);
    block_.each(count, [&task, begins, first, packs](std::int32_t i) {
      const std::int32_t position = task.memory.position[first + i];
      const Range positions = {position, position + task.memory.queries[first + i]};
      const Undivided pack{-1, first + i, positions, -1};
      spread(task, pack, task.machine.max_queries(), packs + begins[i]);
    });
    block_.once([&memory, packs, added] { memory.shape[PlanMemory::kPacks] = packs + added; });
  }

 private:
  /// For PackDivider. By one thread.
  TRUNKLINE_HOST_DEVICE static void keep_cuts(const PlanTask& task, std::int32_t number) {
    const TriedTiles tried = task.memory.tries[number];
    BlockMemory::State& state = *task.block.state;
    state.chosen = {tried.pieces, tried.reads, tried.choice.tiles, tried.choice.width};
    tried.reads.put_into(state.costs);
  }

  /// Index of Forest::order of a request that tiles hold. Mostly there is no gap, and a read is saved.
  TRUNKLINE_HOST_DEVICE static std::int32_t order_of(const PlanTask& task, std::int32_t listed) {
    return task.block.state->in_order != 0 ? listed : task.memory.try_orders[listed];
  }

  TRUNKLINE_HOST_DEVICE static TileFrame frame_of(const PlanTask& task, std::int32_t width, Range listed) {
    const PlanMemory& memory = task.memory;
    const TeamMachine& machine = task.machine;
    const std::int32_t first = order_of(task, listed.begin);
    const std::int32_t last = order_of(task, listed.end - 1);
    TileFrame tile{};
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
    return tile;
  }

  TRUNKLINE_HOST_DEVICE static std::int32_t segments_of(const PlanMemory& memory, const TileFrame& tile) {
    const std::int32_t tails = memory.tails_before[tile.members.end] - memory.tails_before[tile.members.begin];
    return tile.path + tile.last_node - tile.first_node + tails;
  }
  TRUNKLINE_HOST_DEVICE static std::int32_t packs_of(const PlanTask& task, const TileFrame& tile) {
    return ceil_div(size_of(tile.positions), task.machine.widths[tile.width].max_queries);
  }

  /// What may be wider than a tile.
  struct Undivided {
    std::int32_t tile;  ///< as in PlannedPack
    std::int32_t order_index;
    Range positions;
    std::int32_t width;  ///< -1: the narrowest that holds what is left
  };

  /// A request that alone is wider than a tile is spread over full ones, and what is left of it. \param first where
  /// packs are written
  TRUNKLINE_HOST_DEVICE static void spread(const PlanTask& task, const Undivided& all, std::int32_t room,
                                           std::int32_t first) {
    for (std::int32_t begin = all.positions.begin; begin < all.positions.end; begin += room, ++first) {
      PlannedPack& pack = task.memory.packs[first];
      pack.tile = all.tile;
      pack.order_index = all.order_index;
      pack.positions = {begin, least(begin + room, all.positions.end)};
      const std::int32_t queries = size_of(pack.positions);
      pack.width = all.width < 0 ? task.machine.width_for(queries) : all.width;
      pack.first_half = task.machine.first_half(pack.width, queries);
    }
  }

  Block& block_;
  const PlanTask& task_;
};

/// Queries of the request at an index of Forest::order, by position and by id.
TRUNKLINE_HOST_DEVICE inline void write_queries_of(const PlanTask& task, const PlanLists& lists, std::int32_t i) {
  const std::int32_t row = task.forest.order[i];
  const std::int32_t first = task.forest.query_begin[row];
  const std::int32_t queries = task.memory.queries[i];
  const std::int32_t position = task.memory.position[i];
  for (std::int32_t token = 0; token < queries; ++token) {
    task.memory.query_at[position + token] = first + token;
    lists.queries[first + token] = {row, first + token, queries - 1 - token};
  }
}

template <class Team>
TRUNKLINE_HOST_DEVICE void write_queries(Team& team, const PlanTask& task, const PlanLists& lists) {
  team.each(task.forest.rows, [&task, &lists](std::int32_t i) { write_queries_of(task, lists, i); });
}

/// Puts a node into what every step-th of some tiles streams, all of which have it on their path.
TRUNKLINE_HOST_DEVICE inline void enter_paths(const PlanMemory& memory, std::int32_t node, std::int32_t depth,
                                              Range tiles, std::int32_t step) {
  constexpr std::int32_t kReads = 8;  // on their way together, as each takes long on devices
  for (std::int32_t first = tiles.begin; first < tiles.end; first += kReads * step) {
    std::int32_t begins[kReads];
    for (std::int32_t k = 0; k < kReads; ++k) {
      const std::int32_t tile = first + k * step;
      begins[k] = tile < tiles.end ? memory.tiles[tile].raw_begin : -1;
    }
    for (std::int32_t k = 0; k < kReads; ++k) {
      if (begins[k] >= 0) memory.raw[begins[k] + depth] = node;
    }
  }
}

/// Where in PlanMemory::raw a node that begins at a member is, or the end of that member; -1 where it is not, or on the
/// path alone.
TRUNKLINE_HOST_DEVICE inline std::int32_t place_in_raw(const PlanTask& task, bool is_node, std::int32_t i,
                                                       std::int32_t member) {
  const PlanMemory& memory = task.memory;
  // The last tile that begins up to a member; requests that no tile holds may lie between tiles and behind them.
  const std::int32_t tile_index = memory.tiles_from[member + 1] - 1;
  if (tile_index < 0) return -1;
  const PlannedTile& tile = memory.tiles[tile_index];
  if (member >= tile.members.end) return -1;
  const std::int32_t before = memory.tails_before[member];
  const std::int32_t begin = tile.raw_begin + tile.path + before - memory.tails_before[tile.members.begin];
  if (is_node) return member > tile.members.begin ? begin + i - tile.first_node - 1 : -1;
  if (memory.tails_before[member + 1] == before) return -1;
  return begin + task.forest.node[task.forest.order[member]] - tile.first_node;
}

/// Puts what each tile streams into order: the path of its first member, then nodes in depth-first order, each with the
/// ends of those requests that end where others go on. A node that others have begun before is met on the path alone.
/// Beside that, queries.
template <class Team>
TRUNKLINE_HOST_DEVICE void list_segments(Team& team, const PlanTask& task, const PlanLists& lists) {
  constexpr std::int32_t kLanes = 4;  // that share the tiles of a node
  const std::int32_t nodes = task.forest.node_count;
  const std::int32_t rows = task.forest.rows;
  team.each(nodes * kLanes + rows, [&task, &lists, nodes](std::int32_t index) {
    const PlanMemory& memory = task.memory;
    const bool is_node = index < nodes * kLanes;
    const std::int32_t i = is_node ? index / kLanes : index - nodes * kLanes;
    const std::int32_t member = is_node ? task.forest.nodes[i].requests.begin : i;
    // Found before anything is written: reads cannot be moved ahead of that.
    const std::int32_t place = place_in_raw(task, is_node, i, member);
    if (is_node) {
      const ForestNode& node = task.forest.nodes[i];
      const Range tiles = {memory.tiles_from[member], memory.tiles_from[node.requests.end]};
      enter_paths(memory, i, node.depth, {tiles.begin + index % kLanes, tiles.end}, kLanes);
      if (place >= 0 && index % kLanes == 0) memory.raw[place] = i;
    } else {
      write_queries_of(task, lists, member);
      if (place >= 0) memory.raw[place] = -1 - member;
    }
  });
}

}  // namespace trunkline
