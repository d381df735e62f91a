// What items are made of: queries that read segments together, before they are cut along KV.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cut_choice.hpp"
#include "plan/device/arena.hpp"
#include "plan/task_costs.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// Consecutive tokens of a segment, in the order in which a pack streams them.
struct Fragment {
  std::int64_t first_token = 0;  ///< of the pack's tokens, as cuts count them
  std::int64_t length = 0;       ///< of these
  std::int32_t row = 0;
  std::int32_t begin = 0;  ///< token positions in the row
  std::int32_t end = 0;
  Range readers = {};       ///< positions of queries
  bool open_ended = false;  ///< it ends where the row does
};

/// A set of packs that read the same fragments: one, or several where their queries are more than a tile holds.
struct PackGroup {
  Range positions;               ///< of all queries
  std::int32_t width = -1;       ///< of tiles, in PlannerMachine::widths; -1: the narrowest that holds a pack's queries
  std::int32_t max_queries = 0;  ///< of a pack
  std::int32_t first_fragment = 0;
  std::int32_t fragments = 0;
  std::int32_t masked = 0;        ///< fragments that not all queries see, unless `uniform`
  std::int32_t first_output = 0;  ///< partials of its queries in packs before
  bool sliced = false;            ///< cuts count what slices have room for
  std::int64_t tokens = 0;
  std::int64_t cut_tokens = 0;     ///< as cuts count them
  std::int64_t matrix_tokens = 0;  ///< those that both halves of a tile see count twice; unless `uniform`
  bool uniform = true;             ///< all queries see all fragments
  // Of the growth of rows (plan_growth.hpp).
  std::int32_t members = 0;      ///< requests
  std::int32_t own_chunk = -1;   ///< tokens of a request that lie together where they are interleaved; -1: all
  std::int64_t open_tokens = 0;  ///< of open-ended segments
};

struct PlannedPack {
  Range positions;
  std::int32_t group = 0;
  std::int32_t width = 0;       ///< in PlannerMachine::widths
  std::int32_t first_half = 0;  ///< queries of the tile's first half; 0 where it works as one
  std::int32_t parts = 1;
  std::int32_t first_item = 0;
  std::int32_t first_entry = 0;  ///< in item_queries
  std::int32_t first_span = 0;
  std::int32_t first_mask = 0;
  std::int32_t first_window = 0;  ///< of draft trees

  TRUNKLINE_HOST_DEVICE std::int32_t queries() const { return positions.end - positions.begin; }
};

}  // namespace trunkline
