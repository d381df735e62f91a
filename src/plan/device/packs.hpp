// Packs: sets of queries that read KV segments together, before they are cut along KV into items.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cut_choice.hpp"
#include "plan/device/arena.hpp"
#include "plan/task_costs.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// Consecutive tokens of one row; a pack streams its KV segments in order.
struct KvSegment {
  std::int64_t first_token = 0;  ///< position among the tokens of the pack, as cuts count them
  std::int64_t length = 0;       ///< in these tokens
  std::int32_t row = 0;
  std::int32_t begin = 0;  ///< token positions in the row
  std::int32_t end = 0;
  Range readers = {};       ///< range of query positions
  bool open_ended = false;  ///< it ends at the end of the row
};

/// Packs that read the same KV segments: several packs if there are more queries than a tile holds, else one.
struct PackGroup {
  Range positions;          ///< range of all query positions
  std::int32_t width = -1;  ///< index in PlannerMachine::widths; -1: the narrowest tile that holds a pack's queries
  std::int32_t max_queries = 0;  ///< maximum of a pack
  std::int32_t first_kv_segment = 0;
  std::int32_t kv_segments = 0;
  std::int32_t masked = 0;        ///< KV segments that are not visible to all queries, unless `uniform`
  std::int32_t first_output = 0;  ///< partials of its queries in earlier packs
  bool sliced = false;            ///< cuts count the tokens that slices have room for
  std::int64_t tokens = 0;
  std::int64_t cut_tokens = 0;     ///< as cuts count them
  std::int64_t matrix_tokens = 0;  ///< tokens that both halves of a tile read count twice; unless `uniform`
  bool uniform = true;             ///< all KV segments are visible to all queries
  // Inputs of PlanGrowth (plan_growth.hpp).
  std::int32_t members = 0;      ///< requests
  std::int32_t own_chunk = -1;   ///< consecutive tokens of one request in the interleaved order; -1: not interleaved
  std::int64_t open_tokens = 0;  ///< of open-ended segments
};

struct PlannedPack {
  Range positions;
  std::int32_t group = 0;
  std::int32_t width = 0;       ///< in PlannerMachine::widths
  std::int32_t first_half = 0;  ///< queries of the tile's first half; 0: the tile works as one
  std::int32_t parts = 1;
  std::int32_t first_item = 0;
  std::int32_t first_entry = 0;  ///< in item_queries
  std::int32_t first_span = 0;
  std::int32_t first_mask = 0;
  std::int32_t first_window = 0;  ///< of draft trees

  TRUNKLINE_HOST_DEVICE std::int32_t queries() const { return positions.end - positions.begin; }
};

}  // namespace trunkline
