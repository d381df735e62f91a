// How far rows may grow before workers are so uneven that planning anew pays.
//
// A token that a request grows by is another one for the item that its open end is in. Where an item has more open ends
// than the mean worker, it falls behind by that excess at every step, in every layer: after n steps the step takes
// n x excess x 17 ns x layers longer (one SM of an H200 streams a token of a tile in 17 ns). Against some 60 us for a
// plan, with 32 layers, planning every 15 / sqrt(excess) steps costs least.
#pragma once

#include <cstdint>
#include <limits>

#include "base/host_device.hpp"
#include "plan/device/packs.hpp"
#include "plan/task_costs.hpp"

namespace trunkline {

struct PlanGrowth {
  static constexpr std::int32_t kUnlimited = std::numeric_limits<std::int32_t>::max();

  /// The most open ends of one of a pack's items, about: as if all requests had as many tokens of their own.
  TRUNKLINE_HOST_DEVICE static std::int32_t open_ends(const PackGroup& group, std::int32_t parts) {
    const std::int32_t members = group.members;
    if (parts <= 1) return members;
    // What is interleaved lies between what all have in common; else it follows on that, end by end.
    const std::int64_t together = group.own_chunk >= 0 ? group.own_chunk : group.tokens / parts;
    const std::int64_t ends = together * members / most<std::int64_t>(group.open_tokens, 1) + 1;
    return static_cast<std::int32_t>(least<std::int64_t>(members, most<std::int64_t>(ends, ceil_div(members, parts))));
  }

  /// Tokens that rows may grow by, a power of two. \param open_ends the most of an item \param rows that may grow
  /// \param items of one KV head
  TRUNKLINE_HOST_DEVICE static std::int32_t limit(std::int32_t open_ends, std::int32_t rows, std::int32_t items,
                                                  const TaskCosts& costs) {
    const std::int64_t busy = least<std::int64_t>(costs.workers, std::int64_t{items} * costs.kv_heads);
    const std::int64_t mean = kFraction * rows * costs.kv_heads / most<std::int64_t>(busy, 1);
    const std::int64_t excess = kFraction * open_ends - mean;
    if (excess <= 0) return kUnlimited;
    std::int32_t tokens = kAlone;
    while (tokens > 1 && tokens * tokens * excess > kFraction * kAlone * kAlone) tokens /= 2;
    return tokens;
  }

 private:
  static constexpr std::int32_t kAlone = 16;     // tokens, of an excess of 1
  static constexpr std::int64_t kFraction = 16;  // in which ends are counted
};

}  // namespace trunkline
