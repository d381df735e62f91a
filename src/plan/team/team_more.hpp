// What planning needs of teams beside plan/team/team.hpp.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/team_memory.hpp"

namespace trunkline {

template <class T>
TRUNKLINE_HOST_DEVICE void take_list(TeamMemory& memory, T*& list, std::int64_t count) {
  list = memory.take<T>(count);
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

}  // namespace trunkline
