// Laying packs out as a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/packs.hpp"
#include "plan/query_order.hpp"
#include "plan/split.hpp"
#include "plan/tiles.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// \throws Error(kUnsupported) with the lengths, when one is above kMaxListLength.
void check_list_lengths(const ListLengths& lengths);

/// Fills a plan's queries, items, spans, masks, outputs and merge lists; keeps its scratch memory between plans.
class PlanEmitter {
 public:
  /// \throws Error(kUnsupported) when the plan's lists would be too long, before they are made.
  void emit(const Forest& forest, const Packs& packs, const Division& division, const TileTable& tiles, Plan& plan);

 private:
  void make_room(const Packs& packs, const Division& division, Plan& plan);
  void emit_merge_lists(const QueryOrder& order, Plan& plan);
  void emit_item_queries(const Packs& packs, const Pack& pack, std::int32_t begin, Plan& plan);

  std::vector<std::int32_t> items_at_;   // [positions + 1] items that hold the query at a position
  std::vector<std::int32_t> next_slot_;  // [queries] the query's next free partial slot, or kDirect
};

}  // namespace trunkline
