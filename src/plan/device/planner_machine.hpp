// What planning on a device knows of a machine and a shape, fixed when the planner is made: plain data.
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
  static constexpr std::int32_t kLengths = 33;  // by bit width of an item's tokens

  TaskCosts costs;                      ///< of a batch without queries, whose shared tokens the cache does not hold
  std::int64_t cached_reread = 0;       ///< TaskCosts::reread_per_token where it does
  std::int64_t cached_tokens = 0;       ///< up to so many
  double query_bytes = 0;               ///< of a query's Q and O
  double read_bytes_per_us = 0;         ///< MachineProfile's
  TrunkWidth widths[kMaxHeights] = {};  ///< by rising rows
  std::int32_t n[kMaxHeights][kLengths] = {};  ///< KV tokens of a width's tile, by bit width of the item's tokens
  std::int32_t width_count = 0;
  Slices slices;                       ///< in which what tiles stream is counted
  std::int32_t common_chunk_bits = 0;  ///< MachineProfile::common_chunk_tokens is 2^common_chunk_bits
  PlanCapacity capacity;               ///< none of them 0
  std::int64_t mask_capacity = 0;      ///< of the lists (plan_sizes.hpp)
  std::int32_t invariant_chunk = 0;    ///< of policy `invariant`: tokens of a chunk; 0: of policy `trunk`
  std::int32_t uniform_width = 0;      ///< of the tiles of `invariant`

  TRUNKLINE_HOST_DEVICE std::int32_t max_queries() const { return widths[width_count - 1].max_queries; }
  /// The narrowest that holds so many queries; the widest where none does.
  TRUNKLINE_HOST_DEVICE std::int32_t width_for(std::int32_t queries) const {
    std::int32_t width = 0;
    while (width + 1 < width_count && widths[width].max_queries < queries) ++width;
    return width;
  }
  /// TileTable::first_half.
  TRUNKLINE_HOST_DEVICE std::int32_t first_half(std::int32_t width, std::int32_t queries) const {
    return widths[width].halves ? queries - queries / 2 : 0;
  }
  /// The tile of an item of so many tokens.
  TRUNKLINE_HOST_DEVICE TileShape tile(std::int32_t width, std::int64_t tokens) const {
    const int bits = least(bit_width(static_cast<std::uint64_t>(tokens)), kLengths - 1);
    return {widths[width].rows, n[width][bits]};
  }
  TRUNKLINE_HOST_DEVICE TaskCosts batch_costs(std::int64_t queries, std::int64_t shared_tokens) const {
    TaskCosts result = costs;
    result.query_time = query_time(queries, query_bytes, read_bytes_per_us);
    if (shared_tokens <= cached_tokens) result.reread_per_token = cached_reread;
    return result;
  }
};

/// Of the plans that make_plan makes of a policy, `trunk` or `invariant`, with a capacity.
/// \param invariant_chunk of `invariant`: tokens of a chunk; 0: `trunk`
/// \throws Error where the profile or the shape cannot be planned for, is not of a CUDA device, or a capacity is not
/// positive.
PlannerMachine make_planner_machine(const MachineProfile& profile, const AttentionShape& shape,
                                    const PlanCapacity& capacity, std::int32_t invariant_chunk = 0);

}  // namespace trunkline
