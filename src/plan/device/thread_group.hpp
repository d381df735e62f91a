// The parallel operations that planning is written in. One source runs on a thread block of a GPU
// (exec/cuda/device_planner/block_group.cuh) and, for tests, on threads of the host (tests/plan/device/host_group.hpp).
//
// A thread group is a set of threads that call the same functions with the same arguments, in the same order:
//
//   for_each(count, f)                    f(i) for i in [0, count), by any thread, in any order
//   for_each_warp(count, f)               f(i, warp): i is one warp's; a warp is a smaller thread group
//   for_each_subwarp(count, f)            f(i, subwarp), of a quarter of a warp: for many i that wait for memory
//   exclusive_scan(count, value, put)     put(i, sum of value(k) for k < i); the sum of all is returned
//   reduce(count, none, value, op)        op over all value(i), and `none`; returned to all threads
//   sort(keys, count)                     ascending order, in place
//   once(f)                               f() by one thread
//   sync()                                makes earlier writes of all threads visible to all
//   fetch_add, fetch_min, compare_exchange    atomic; return the old value
//
// Each but the atomics ends with a sync().
//
// Rules for code that uses them:
// - All threads run the code between the calls. It reads data that a sync() has published, and writes only local
//   variables.
// - No result may depend on the order of i. The host's group shuffles it.
// - `value` of a scan may be called twice for the same i, the last time before put(i), which writes nothing that value
//   reads for another i. `value` of a reduction is called once, and may write; `none` may be combined several times.
#pragma once

#include <cstdint>
#include <limits>

#include "base/host_device.hpp"

namespace trunkline {

inline constexpr std::int32_t kNotFound = std::numeric_limits<std::int32_t>::max();

/// Calls put(k, i) for the k-th i in [0, count), in ascending order, for which chosen(i). \return the number of calls
template <class Group, class Chosen, class Put>
TRUNKLINE_HOST_DEVICE std::int32_t select_if(Group& group, std::int32_t count, Chosen chosen, Put put) {
  return group.exclusive_scan(
      count, [&](std::int32_t i) { return chosen(i) ? 1 : 0; },
      [&](std::int32_t i, std::int32_t before) {
        if (chosen(i)) put(before, i);
      });
}

template <class Group, class Value>
TRUNKLINE_HOST_DEVICE auto sum(Group& group, std::int32_t count, Value value) {
  using T = decltype(value(0));
  return group.reduce(count, T{}, value, [](T a, T b) { return a + b; });
}

template <class Group, class Chosen>
TRUNKLINE_HOST_DEVICE bool any(Group& group, std::int32_t count, Chosen chosen) {
  return group.reduce(
      count, false, [&](std::int32_t i) -> bool { return chosen(i); }, [](bool a, bool b) { return a || b; });
}

/// Returns the minimum of f(i) over [begin, end). Results ascend with i; kNotFound stands for none. The search stops
/// early: f is called for some i behind the first that has a result.
template <class Group, class F>
TRUNKLINE_HOST_DEVICE std::int32_t find_first(Group& group, std::int32_t begin, std::int32_t end, F f) {
  constexpr std::int32_t kEach = 4;  // reads of a thread in flight
  const std::int32_t step = kEach * group.size();
  for (; begin < end; begin += min(step, end - begin)) {
    const std::int32_t found = group.reduce(
        min(step, end - begin), kNotFound, [&](std::int32_t i) { return f(begin + i); },
        [](std::int32_t a, std::int32_t b) { return min(a, b); });
    if (found != kNotFound) return found;
  }
  return kNotFound;
}

/// Returns the first i in [begin, end) for which !before(i); end if there is none. Once before(i) is false, it is false
/// for all later i.
template <class Before>
TRUNKLINE_HOST_DEVICE std::int32_t partition_point(std::int32_t begin, std::int32_t end, Before before) {
  TRUNKLINE_ROLLED
  while (begin < end) {
    const std::int32_t middle = begin + (end - begin) / 2;
    if (before(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

}  // namespace trunkline
