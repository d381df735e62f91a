// Memory of planning by a team that all blocks see, but for what few packs need (planned_pack.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cut_choice.hpp"
#include "plan/policies/trunk_core.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/item_lists.hpp"
#include "plan/team/planned_pack.hpp"
#include "plan/team/team_machine.hpp"
#include "plan/team/team_memory.hpp"
#include "plan/team/team_more.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// What all blocks see, but for lists that keep_near(), keep_few(), keep_all_tiles(), keep_own_tiles() and
/// keep_own_items() take from a block's own memory.
struct PlanMemory : PlanShape, PackLists, TileLists, ItemLists {
  // By index of Forest::order; of each block for itself where `near` is set.
  std::int32_t* queries;       // [rows]
  std::int32_t* path_tokens;   // [rows] to the end of its node; -1: an empty request
  std::int32_t* position;      // [rows + 1] of its first query
  std::int32_t* tails_before;  // [rows + 1] requests before it that end where others go on
  std::int32_t* try_orders;    // [rows] those that tiles hold
  std::int32_t* try_begins;    // [TriedTiles::kMost, rows + 1] of tries with many tiles: TriedTiles::begins
  std::int64_t* pack_sums;     // [2, queries] scanned: items and entries, fragments and masks
  TileGuess* guess;            // [1] kept from plan to plan
  std::int32_t rows;           // room
  std::int32_t near;           // 1: keep_near() was called

  /// \return bytes. \param base 256-byte aligned; null: counts only
  TRUNKLINE_HOST_DEVICE std::size_t lay_out(std::byte* base, std::int32_t row_room, const PlanCapacity& room) {
    rows = row_room;
    near = 0;
    TeamMemory memory(base);
    take_requests(memory, rows);
    take_list(memory, query_at, room.queries);
    take_list(memory, try_begins, TriedTiles::kMost * (rows + 1));
    take_list(memory, frames, rows);
    take_list(memory, sums, rows);
    take_list(memory, tiles, rows);
    first_tile = first_raw = 0;
    take_list(memory, raw, room.spans);
    segment_room = room.spans;
    take_list(memory, segments, 2 * segment_room);
    take_list(memory, pack_begin, rows);
    take_list(memory, packs, room.queries);
    take_list(memory, loads, room.queries);
    take_list(memory, classes, room.queries);
    take_list(memory, pack_sums, std::int64_t{2} * room.queries);
    take_items(memory, room.items, room.queries);
    take_list(memory, item_marks, room.items);
    take_list(memory, costs, 1);
    take_list(memory, status, 1);
    take_list(memory, shape, kShapeFields);
    take_list(memory, guess, 1);
    return memory.bytes();
  }

  /// Puts what is known of requests into a block's own memory, where all blocks fill theirs. \param row_room at least
  /// as many as the batch has
  TRUNKLINE_HOST_DEVICE void keep_near(TeamMemory& own, std::int32_t row_room) {
    take_requests(own, row_room);
    near = 1;
  }

  /// By one thread of a block that finds a plan of few packs by itself; and where that plan does not fit.
  TRUNKLINE_HOST_DEVICE void keep_few(FewPacks& own) {
    static_cast<PackLists&>(*this) = {own.shape, own.frames,  own.begins, own.packs,
                                      own.loads, own.classes, &own.costs, &own.status};
  }
  /// By one thread: lists of a block's own of all of few tiles. \param all_segments of all \return whether it has room
  TRUNKLINE_HOST_DEVICE bool keep_all_tiles(const BlockMemory& block, std::int32_t all_segments) {
    const bool fit = all_segments <= block.own_tiles.segment_room;
    if (fit) static_cast<TileLists&>(*this) = block.own_tiles;
    return fit;
  }
  /// The same of a share of them, once there are frames. \param most_segments of a tile
  TRUNKLINE_HOST_DEVICE bool keep_own_tiles(const BlockMemory& block, const BlockShare& share,
                                            std::int32_t most_segments) {
    TileLists own;
    if (!block.take_own(own, share, most_segments)) return false;
    static_cast<TileLists&>(*this) = own;
    return true;
  }
  TRUNKLINE_HOST_DEVICE void keep_own_items(const BlockMemory& block) { block.take_own(*this); }
  TRUNKLINE_HOST_DEVICE void keep_all(const PlanMemory& all) {
    static_cast<PackLists&>(*this) = all;
    static_cast<TileLists&>(*this) = all;
    static_cast<ItemLists&>(*this) = all;
  }

 private:
  TRUNKLINE_HOST_DEVICE void take_requests(TeamMemory& memory, std::int32_t row_room) {
    const std::int32_t room = whole_room(row_room);
    const std::int32_t length = whole_room(row_room + 1);
    take_list(memory, queries, room);
    take_list(memory, path_tokens, room);
    take_list(memory, position, length);
    take_list(memory, tails_before, length);
    take_list(memory, try_orders, room);
  }
};

}  // namespace trunkline
