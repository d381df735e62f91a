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

/// Fills a plan's queries, items, spans, masks, outputs and merge lists; keeps its scratch memory between plans.
class PlanEmitter {
 public:
  void emit(const Forest& forest, const Packs& packs, const Division& division, const TileTable& tiles, Plan& plan);

 private:
  void make_room(const Packs& packs, const Division& division, Plan& plan);
  void emit_merge_lists(const QueryOrder& order, Plan& plan);
  void emit_item_queries(const Packs& packs, const Pack& pack, std::int32_t begin, Plan& plan);

  std::vector<std::int32_t> items_at_;   // [positions + 1] items that hold the query at a position
  std::vector<std::int32_t> next_slot_;  // [queries] the query's next free partial slot, or kDirect
};

}  // namespace trunkline
