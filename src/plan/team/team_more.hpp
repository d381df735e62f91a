// What planning needs of teams beside plan/team/team.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/team_memory.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

TRUNKLINE_HOST_DEVICE inline std::int32_t size_of(Range range) {
  return range.end - range.begin;
}

template <class T>
TRUNKLINE_HOST_DEVICE void take_list(TeamMemory& memory, T*& list, std::int64_t count) {
  list = memory.take<T>(count);
}

/// f(k, i) for a lane's k-th of `count` things that lanes share. \tparam kHeld as many as a lane has at most
template <std::size_t kHeld, class Lanes, class F>
TRUNKLINE_HOST_DEVICE void visit_held(const Lanes& lanes, std::int32_t count, F f) {
  TRUNKLINE_ROLLED
  for (std::size_t k = 0; k < kHeld; ++k) {
    const std::int32_t i = static_cast<std::int32_t>(k) * lanes.count() + lanes.index();
    if (i < count) f(k, i);
  }
}

/// The same by all lanes together, f(k, i, here): where a lane has none left, `here` is false.
template <std::size_t kHeld, class Lanes, class F>
TRUNKLINE_HOST_DEVICE void visit_whole(const Lanes& lanes, std::int32_t count, F f) {
  TRUNKLINE_ROLLED
  for (std::size_t k = 0; k < kHeld && static_cast<std::int32_t>(k) * lanes.count() < count; ++k) {
    const std::int32_t i = static_cast<std::int32_t>(k) * lanes.count() + lanes.index();
    f(k, i, i < count);
  }
}

/// The sum of the values of the lanes before this one. \param[out] total of all lanes
template <class Lanes, class T>
TRUNKLINE_HOST_DEVICE T sum_before(const Lanes& lanes, T value, T& total) {
#if defined(__CUDA_ARCH__)
  T sum = value;
  for (std::int32_t step = 1; step < lanes.count(); step *= 2) {
    const T other = __shfl_up_sync(0xffffffffu, sum, static_cast<unsigned>(step));
    if (lanes.index() >= step) sum += other;
  }
  total = __shfl_sync(0xffffffffu, sum, lanes.count() - 1);
  return sum - value;
#else
  static_cast<void>(lanes);  // a lane of the host is alone
  total = value;
  return T{0};
#endif
}

/// The same of several values in one turn. \param[in,out] values of a lane, and then the sums of those before it
template <class Lanes, std::size_t kCount>
TRUNKLINE_HOST_DEVICE void sums_before(const Lanes& lanes, std::int32_t (&values)[kCount],
                                       std::int32_t (&totals)[kCount]) {
#if defined(__CUDA_ARCH__)
  std::int32_t sums[kCount];
  for (std::size_t k = 0; k < kCount; ++k) sums[k] = values[k];
  TRUNKLINE_ROLLED
  for (std::int32_t step = 1; step < lanes.count(); step *= 2) {
    for (std::size_t k = 0; k < kCount; ++k) {
      const std::int32_t other = __shfl_up_sync(0xffffffffu, sums[k], static_cast<unsigned>(step));
      if (lanes.index() >= step) sums[k] += other;
    }
  }
  for (std::size_t k = 0; k < kCount; ++k) {
    totals[k] = __shfl_sync(0xffffffffu, sums[k], lanes.count() - 1);
    values[k] = sums[k] - values[k];
  }
#else
  static_cast<void>(lanes);
  for (std::size_t k = 0; k < kCount; ++k) {
    totals[k] = values[k];
    values[k] = 0;
  }
#endif
}

/// How many of the lanes before this one are `here`. \param[out] count of all lanes
template <class Lanes>
TRUNKLINE_HOST_DEVICE std::int32_t rank_of(const Lanes& lanes, bool here, std::int32_t& count) {
#if defined(__CUDA_ARCH__)
  const unsigned all = __ballot_sync(0xffffffffu, here);
  count = __popc(all);
  return __popc(all & ((1u << lanes.index()) - 1u));
#else
  static_cast<void>(lanes);
  count = here ? 1 : 0;
  return 0;
#endif
}

/// How many of `count` things come before a place, of which those do that are first. Looks at three things at a time:
/// on devices reads take long, but not longer when there are some at once. \param before(i) whether thing i does
template <class Before>
TRUNKLINE_HOST_DEVICE std::int32_t count_before(std::int32_t count, Before before) {
  constexpr std::int32_t kProbes = 3;
  std::int32_t low = 0;
  std::int32_t high = count;
  while (low < high) {
    const std::int32_t step = (high - low) / (kProbes + 1) + 1;
    std::int32_t passed = 0;
    for (std::int32_t probe = 1; probe <= kProbes; ++probe) {
      const std::int32_t at = low + probe * step - 1;
      const bool is_before = before(least(at, high - 1));
      passed += at < high && is_before ? 1 : 0;
    }
    high = least(high, low + (passed + 1) * step - 1);
    low += passed * step;
  }
  return low;
}

}  // namespace trunkline
