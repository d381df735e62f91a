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
/// the result. A step has 2 x 16 loads a lane in flight (of int64, which take twice the registers, 2 x 8), so that a
/// row of 512 pages takes one latency of reading.
template <class Lanes, class Id>
TRUNKLINE_HOST_DEVICE std::int32_t first_parting(const Lanes& lanes, const Id* a, const Id* b, std::int32_t begin,
                                                 std::int32_t end, const TeamNullId<Id>& null) {
  constexpr std::size_t kLoads = 32 / sizeof(Id);
  const auto per_step = static_cast<std::int32_t>(kLoads) * lanes.count();
  for (std::int32_t step = begin; step < end; step += least(per_step, end - step)) {
    // Beyond the end the last page is read once more: a load that might be skipped would wait for the one before it.
    const auto page = [&](std::size_t k) {
      return step + least(static_cast<std::int32_t>(k) * lanes.count() + lanes.index(), end - 1 - step);
    };
    Id of_a[kLoads];
    Id of_b[kLoads];
    for (std::size_t k = 0; k < kLoads; ++k) {
      of_a[k] = a[page(k)];
      of_b[k] = b[page(k)];
    }
    std::int32_t first = end;
    for (std::size_t k = kLoads; k-- > 0;) {
      if (of_a[k] != of_b[k] || null.is(of_a[k])) first = page(k);
    }
    first = lanes.least(first);
    if (first < end) return first;
  }
  return end;
}

}  // namespace trunkline
