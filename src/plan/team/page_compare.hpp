// Comparing the page ids of two rows by a warp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

/// Which ids are "no page".
template <class Id>
struct TeamNullId {
  TRUNKLINE_HOST_DEVICE explicit TeamNullId(std::int64_t null_page)
      : id(static_cast<Id>(null_page)), exists(null_page >= 0 && std::int64_t{id} == null_page) {}
  TRUNKLINE_HOST_DEVICE bool is(Id other) const { return exists && other == id; }

  Id id;
  bool exists;
};

/// The first page in [begin, end) that differs in two rows or is null; `end` if none. All lanes call it alike and get
/// the result. Each step has 2 x 8 loads a lane in flight (of int64, which take twice the registers, 2 x 4), so that a
/// row of 512 pages takes two rounds of latency.
template <class Lanes, class Id>
TRUNKLINE_HOST_DEVICE std::int32_t first_parting(const Lanes& lanes, const Id* a, const Id* b, std::int32_t begin,
                                                 std::int32_t end, const TeamNullId<Id>& null) {
  constexpr std::size_t kLoads = 32 / sizeof(Id);
  const auto lane_count = static_cast<std::size_t>(lanes.count());
  const auto per_step = static_cast<std::int32_t>(kLoads * lane_count);
  const Id* lane_a = a + begin + lanes.index();
  const Id* lane_b = b + begin + lanes.index();
  std::int32_t left = end - begin - lanes.index();  // from the lane's first
  for (std::int32_t all_left = end - begin; all_left > 0; all_left -= per_step) {
    Id of_a[kLoads];
    Id of_b[kLoads];
    for (std::size_t k = 0; k < kLoads; ++k) {
      const bool there = static_cast<std::int32_t>(k * lane_count) < left;
      of_a[k] = there ? lane_a[k * lane_count] : Id{0};
      of_b[k] = there ? lane_b[k * lane_count] : Id{0};
    }
    std::int32_t first_left = 0;
    for (std::size_t k = kLoads; k-- > 0;) {
      const std::int32_t at = left - static_cast<std::int32_t>(k * lane_count);
      if (at > 0 && (of_a[k] != of_b[k] || null.is(of_a[k]))) first_left = at;
    }
    const std::int32_t parting = lanes.least(end - first_left);
    if (parting < end) return parting;
    lane_a += per_step;
    lane_b += per_step;
    left -= per_step;
  }
  return end;
}

}  // namespace trunkline
