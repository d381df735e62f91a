// What a plan whose packs are cut knows of its items, of all blocks or of each for itself.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/planned_pack.hpp"
#include "plan/team/team_memory.hpp"
#include "plan/team/team_more.hpp"

namespace trunkline {

/// What cuts add to a plan.
struct CutShape {
  std::int32_t splits = 0;  ///< cuts inside of fragments
  std::int32_t masked_splits = 0;
  std::int32_t merges = 0;
  std::int32_t fits = 1;  ///< 0: spans are more than there is room for
};

/// Items that each block finds for itself, in its own memory, as it does the packs and tiles that they are made of.
struct FewItems {
  static constexpr std::int32_t kMost = FewPacks::kMost;
  static_assert(kMost <= FewTiles::kMost);  // FewTiles::held() is what a lane has of them, too

  /// \param shape PlanShape's
  TRUNKLINE_HOST_DEVICE static bool are_few(const std::int32_t* shape) {
    return shape[PlanShape::kOwnTiles] != kNoTiles && shape[PlanShape::kItems] <= kMost;
  }
};

/// Where an item begins in its pack.
struct alignas(16) ItemMark {
  std::int64_t splits;  ///< 1: inside of a fragment; above 32 bits, of a masked one
  std::int32_t rank;    ///< fragments of its pack that end before it, or where it begins
};

/// Items of a plan of which some are parts of packs: PlanMemory's, or each block's own.
struct ItemLists {
  // By query.
  std::int64_t* slots_of;  // [queries + 1] partial slots of those before it; and above 32 bits, how many have some

  // By item.
  std::int32_t* item_pack;    // [items]
  std::uint16_t* item_class;  // [items] of its cost
  ItemMark* item_marks;       // [items] which blocks tell each other where each has some of its own
  std::int64_t* item_splits;  // [items + 1] cuts inside of fragments up to its begin; above 32 bits, of masked ones
  std::int32_t* item_place;   // [items] in the schedule
  CutShape* cuts;

  /// All but item_marks.
  TRUNKLINE_HOST_DEVICE void take_items(TeamMemory& memory, std::int32_t items, std::int32_t queries) {
    take_list(memory, slots_of, std::int64_t{queries} + 1);
    take_list(memory, item_pack, items);
    take_list(memory, item_class, items);
    take_list(memory, item_splits, std::int64_t{items} + 1);
    take_list(memory, item_place, items);
    take_list(memory, cuts, 1);
  }
};

}  // namespace trunkline
