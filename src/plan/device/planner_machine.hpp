// The machine and the shape as the device planner uses them, fixed when the planner is made: plain data.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/policies/trunk_core.hpp"
#include "plan/query_time.hpp"
#include "plan/slices.hpp"
#include "plan/task_costs.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

struct PlannerMachine {
  static constexpr std::int32_t kMaxHeights = 8;
  static constexpr std::int32_t kLengths = 33;  // indexed by the bit width of an item's tokens

  TaskCosts costs;                             ///< for a batch without queries whose shared tokens exceed the cache
  std::int64_t cached_reread = 0;              ///< TaskCosts::reread_per_token if the cache holds the shared tokens
  std::int64_t cached_tokens = 0;              ///< maximum of shared tokens that the cache holds
  double query_bytes = 0;                      ///< bytes of a query's Q and O
  double read_bytes_per_us = 0;                ///< MachineProfile's
  TrunkWidth widths[kMaxHeights] = {};         ///< ascending in rows
  std::int32_t n[kMaxHeights][kLengths] = {};  ///< KV tokens of a width's tile, by the bit width of the item's tokens
  std::int32_t width_count = 0;
  Slices slices;                       ///< the unit in which tokens of tiles are counted
  std::int32_t common_chunk_bits = 0;  ///< MachineProfile::common_chunk_tokens is 2^common_chunk_bits
  PlanCapacity capacity;               ///< all members are positive
  std::int64_t mask_capacity = 0;      ///< of the lists (plan_sizes.hpp)
  std::int32_t invariant_chunk = 0;    ///< tokens of a chunk of policy `invariant`; 0: the policy is `trunk`
  std::int32_t uniform_width = 0;      ///< width of the tiles of `invariant`

  TRUNKLINE_HOST_DEVICE std::int32_t max_queries() const { return widths[width_count - 1].max_queries; }
  /// Returns the narrowest width that holds so many queries; the widest if none does.
  TRUNKLINE_HOST_DEVICE std::int32_t width_for(std::int32_t queries) const {
    std::int32_t width = 0;
    while (width + 1 < width_count && widths[width].max_queries < queries) ++width;
    return width;
  }
  /// Equal to TileTable::first_half.
  TRUNKLINE_HOST_DEVICE std::int32_t first_half(std::int32_t width, std::int32_t queries) const {
    return widths[width].halves ? queries - queries / 2 : 0;
  }
  /// Returns the tile of an item of so many tokens.
  TRUNKLINE_HOST_DEVICE TileShape tile(std::int32_t width, std::int64_t tokens) const {
    const int bits = min(bit_width(static_cast<std::uint64_t>(tokens)), kLengths - 1);
    return {widths[width].rows, n[width][bits]};
  }
  TRUNKLINE_HOST_DEVICE TaskCosts batch_costs(std::int64_t queries, std::int64_t shared_tokens) const {
    TaskCosts result = costs;
    result.query_time = query_time(queries, query_bytes, read_bytes_per_us);
    if (shared_tokens <= cached_tokens) result.reread_per_token = cached_reread;
    return result;
  }
};

/// Returns the machine with which the device makes the plans of make_plan, for policy `trunk` or `invariant`.
/// \param invariant_chunk tokens of a chunk of `invariant`; 0: the policy is `trunk`
/// \throws Error if the profile or the shape is not supported, the profile is not of a CUDA device, or a capacity is
/// not positive
PlannerMachine make_planner_machine(const MachineProfile& profile, const AttentionShape& shape,
                                    const PlanCapacity& capacity, std::int32_t invariant_chunk = 0);

}  // namespace trunkline
