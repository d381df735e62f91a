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
/// the result. Each step has 2 x 8 loads a lane in flight (of int64, which take twice the registers, 2 x 4), so that a
/// row of 512 pages takes two rounds of latency.
template <class Lanes, class Id>
TRUNKLINE_HOST_DEVICE std::int32_t first_parting(const Lanes& lanes, const Id* a, const Id* b, std::int32_t begin,
                                                 std::int32_t end, const TeamNullId<Id>& null) {
  constexpr unsigned kLoads = 32 / sizeof(Id);
  // Unsigned, since the last step may begin less than 2^31 and end beyond.
  const auto lane_count = static_cast<std::uint32_t>(lanes.count());
  const auto last = static_cast<std::uint32_t>(end);
  std::uint32_t page = static_cast<std::uint32_t>(begin) + static_cast<std::uint32_t>(lanes.index());
  for (std::int32_t steps = ceil_div(end - begin, static_cast<std::int32_t>(kLoads) * lanes.count()); steps > 0;
       --steps) {
    Id of_a[kLoads];
    Id of_b[kLoads];
    for (unsigned k = 0; k < kLoads; ++k) {
      const std::uint32_t at = page + k * lane_count;
      of_a[k] = at < last ? a[at] : Id{0};
      of_b[k] = at < last ? b[at] : Id{0};
    }
    std::uint32_t first = last;
    for (unsigned k = kLoads; k-- > 0;) {
      const std::uint32_t at = page + k * lane_count;
      if (at < last && (of_a[k] != of_b[k] || null.is(of_a[k]))) first = at;
    }
    const std::int32_t parting = lanes.least(static_cast<std::int32_t>(first));
    if (parting < end) return parting;
    page += kLoads * lane_count;
  }
  return end;
}

}  // namespace trunkline
