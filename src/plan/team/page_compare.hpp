// Comparing the page ids of two rows by a warp.
#pragma once

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
/// the result. Each step has 2 x 8 loads a lane in flight, so that a row of 512 pages takes two rounds of latency.
template <class Lanes, class Id>
TRUNKLINE_HOST_DEVICE std::int32_t first_parting(const Lanes& lanes, const Id* a, const Id* b, std::int32_t begin,
                                                 std::int32_t end, const TeamNullId<Id>& null) {
  constexpr std::int32_t kLoads = 8;
  const std::int32_t lane_count = lanes.count();
  for (std::int64_t step = begin; step < end; step += kLoads * lane_count) {
    std::int32_t first = end;
    Id of_a[kLoads];
    Id of_b[kLoads];
    for (std::int32_t k = 0; k < kLoads; ++k) {
      const std::int64_t page = step + k * lane_count + lanes.index();
      of_a[k] = page < end ? a[page] : Id{0};
      of_b[k] = page < end ? b[page] : Id{0};
    }
    for (std::int32_t k = 0; k < kLoads; ++k) {
      const std::int64_t page = step + k * lane_count + lanes.index();
      if (page < first && (of_a[k] != of_b[k] || null.is(of_a[k]))) first = static_cast<std::int32_t>(page);
    }
    first = lanes.least(first);
    if (first < end) return first;
  }
  return end;
}

}  // namespace trunkline
