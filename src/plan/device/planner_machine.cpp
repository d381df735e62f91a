#include "plan/device/planner_machine.hpp"

#include <bit>
#include <cstdint>
#include <limits>

#include "base/check.hpp"
#include "machine/profile_check.hpp"
#include "plan/capacity_limits.hpp"
#include "plan/cost_model.hpp"
#include "plan/plan_checks.hpp"
#include "plan/plan_sizes.hpp"
#include "plan/tiles.hpp"

namespace trunkline {
namespace {

void check_limits(const MachineProfile& profile, const PlanCapacity& capacity) {
  if (profile.device != Device::kCuda) {
    fail(ErrorCode::kUnsupported, "profile.device is ", name_of(profile.device), "; plans are made on cuda devices");
  }
  for (const CapacityLimit& each : kCapacityLimits) {
    const std::int32_t limit = capacity.*each.limit;
    if (limit < 1) fail(ErrorCode::kInvalidArgument, "capacity.", each.name, " is ", limit, "; it must be >= 1");
  }
  // The time of the layout grows with the square of the number of items.
  constexpr std::int32_t kMaxItems = 1 << 18;
  if (capacity.items > kMaxItems) {
    fail(ErrorCode::kUnsupported, "capacity.items is ", capacity.items, "; supported on a device: up to ", kMaxItems);
  }
}

void list_widths(const TileTable& tiles, PlannerMachine& machine) {
  for (const std::int32_t rows : tiles.row_choices()) {
    if (machine.width_count == PlannerMachine::kMaxHeights) {
      fail(ErrorCode::kUnsupported, "profile.tiles have ", tiles.row_choices().size(),
           " different m; supported: up to ", PlannerMachine::kMaxHeights);
    }
    const std::int32_t width = machine.width_count++;
    const std::int32_t queries = tiles.max_queries(rows);
    machine.widths[width] = {.rows = rows, .max_queries = queries, .halves = tiles.first_half(rows, queries) > 0};
    machine.widths[width].narrow_queries = narrow_queries(machine.widths[width], machine.widths, width);
    for (std::int32_t length = 0; length < PlannerMachine::kLengths; ++length) {
      const std::int64_t tokens = length == 0 ? 0 : std::int64_t{1} << (length - 1);
      machine.n[width][length] = tiles.tile_of_rows(rows, tokens).n;
    }
  }
}

/// Policy `invariant` needs a tile that works as one: in a tile of two halves, the order of summation depends on the
/// number of queries.
std::int32_t uniform_width(const PlannerMachine& machine, std::int32_t rows) {
  std::int32_t width = 0;
  while (machine.widths[width].rows != rows) ++width;
  if (machine.widths[width].halves) {
    fail(ErrorCode::kUnsupported, "all tiles have ", rows,
         " rows and work as two halves; policy invariant needs one that works as one");
  }
  return width;
}

}  // namespace

PlannerMachine make_planner_machine(const MachineProfile& profile, const AttentionShape& shape,
                                    const PlanCapacity& capacity, std::int32_t invariant_chunk) {
  check_shape(shape);
  check_profile(profile);
  check_limits(profile, capacity);
  PlannerMachine machine;
  CostModel costs;
  costs.reset(profile, shape, 0, 0);
  machine.cached_reread = costs.tasks().reread_per_token;
  costs.reset(profile, shape, 0, std::numeric_limits<std::int64_t>::max());
  machine.costs = costs.tasks();
  machine.cached_tokens = profile.llc_bytes / (machine.costs.token_bytes * shape.kv_heads);
  machine.query_bytes = query_bytes(shape);
  machine.read_bytes_per_us = profile.read_bytes_per_us;
  TileTable tiles;
  tiles.reset(profile, shape.group_size());
  list_widths(tiles, machine);
  machine.slices = Slices::of(profile, shape.page_size);
  machine.common_chunk_bits = std::countr_zero(static_cast<std::uint32_t>(profile.common_chunk_tokens));
  machine.capacity = capacity;
  machine.mask_capacity = mask_capacity(capacity, shape.group_size());
  machine.invariant_chunk = invariant_chunk;
  if (invariant_chunk > 0) machine.uniform_width = uniform_width(machine, tiles.uniform_rows());
  return machine;
}

}  // namespace trunkline
