// Laying packs out as a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/packs.hpp"
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
  void emit_merge_lists(Plan& plan);

  std::vector<std::int32_t> next_slot_;  // [queries] items that hold a query, then its next free partial slot
};

}  // namespace trunkline
