// The growth of rows after which workers are so uneven that a new plan pays.
//
// When a request grows by a token, the item that holds its open end grows by a token. An item with more open ends than
// the mean worker falls behind by this excess at each step, in each layer: after n steps the step takes
// n x excess x 17 ns x layers longer (one SM of an H200 streams a token of a tile in 17 ns). Against some 60 us for a
// plan, with 32 layers, the cost is minimal with a plan every 15 / sqrt(excess) steps.
#pragma once

#include <cstdint>
#include <limits>

#include "base/host_device.hpp"
#include "plan/device/packs.hpp"
#include "plan/task_costs.hpp"

namespace trunkline {

struct PlanGrowth {
  static constexpr std::int32_t kUnlimited = std::numeric_limits<std::int32_t>::max();

  /// Estimates the maximum of open ends in one item of a pack, as if all requests had equally many tokens of their own.
  TRUNKLINE_HOST_DEVICE static std::int32_t open_ends(const PackGroup& group, std::int32_t parts) {
    const std::int32_t members = group.members;
    if (parts <= 1) return members;
    // Interleaved requests alternate with the common tokens; else each request's tokens are consecutive, behind them.
    const std::int64_t together = group.own_chunk >= 0 ? group.own_chunk : group.tokens / parts;
    const std::int64_t ends = together * members / max<std::int64_t>(group.open_tokens, 1) + 1;
    return static_cast<std::int32_t>(min<std::int64_t>(members, max<std::int64_t>(ends, ceil_div(members, parts))));
  }

  /// Returns the growth limit in tokens, a power of two. \param open_ends maximum of an item \param rows that may grow
  /// \param items of one KV head
  TRUNKLINE_HOST_DEVICE static std::int32_t limit(std::int32_t open_ends, std::int32_t rows, std::int32_t items,
                                                  const TaskCosts& costs) {
    const std::int64_t busy = min<std::int64_t>(costs.workers, std::int64_t{items} * costs.kv_heads);
    const std::int64_t mean = kFraction * rows * costs.kv_heads / max<std::int64_t>(busy, 1);
    const std::int64_t excess = kFraction * open_ends - mean;
    if (excess <= 0) return kUnlimited;
    std::int32_t tokens = kAlone;
    while (tokens > 1 && tokens * tokens * excess > kFraction * kAlone * kAlone) tokens /= 2;
    return tokens;
  }

 private:
  static constexpr std::int32_t kAlone = 16;     // growth limit in tokens for an excess of 1
  static constexpr std::int64_t kFraction = 16;  // open ends are counted in 1 / kFraction
};

}  // namespace trunkline
