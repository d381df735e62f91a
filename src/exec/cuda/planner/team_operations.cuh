// What teams of a device do without a barrier: by a warp, and atomically.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/common/ptx.cuh"
#include "plan/team/team.hpp"

namespace trunkline::cuda {

/// In shared memory; for reductions and scans.
struct TeamScratch {
  static constexpr std::size_t kWords = 3;

  std::int64_t of_warp[32];
  std::int64_t words[kWords][32];
  std::uint64_t received[Telling::kNumbers];  ///< a cluster's barriers for what blocks send to this one
  std::int32_t from_lead;                     ///< what the lead says: blocks may still read the words above meanwhile
};

// What sums need of their types.
template <class T>
__device__ __forceinline__ T shuffle_up(T value, int step) {
  return __shfl_up_sync(kWholeWarp, value, step);
}
template <class T>
__device__ __forceinline__ T shuffle_from(T value, int lane) {
  return __shfl_sync(kWholeWarp, value, lane);
}
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int step) {
  return __shfl_xor_sync(kWholeWarp, value, step);
}
template <class T>
__device__ __forceinline__ void put_of_warp(TeamScratch& scratch, std::int32_t warp, T value) {
  scratch.of_warp[warp] = static_cast<std::int64_t>(value);
}
template <class T>
__device__ __forceinline__ void get_of_warp(const TeamScratch& scratch, std::int32_t warp, T& value) {
  value = static_cast<T>(scratch.of_warp[warp]);
}
template <std::size_t kCount>
__device__ __forceinline__ TeamWords<kCount> shuffle_up(TeamWords<kCount> value, int step) {
  for (std::size_t i = 0; i < kCount; ++i) value.at[i] = __shfl_up_sync(kWholeWarp, value.at[i], step);
  return value;
}
template <std::size_t kCount>
__device__ __forceinline__ TeamWords<kCount> shuffle_from(TeamWords<kCount> value, int lane) {
  for (std::size_t i = 0; i < kCount; ++i) value.at[i] = __shfl_sync(kWholeWarp, value.at[i], lane);
  return value;
}
template <std::size_t kCount>
__device__ __forceinline__ TeamWords<kCount> shuffle_xor(TeamWords<kCount> value, int step) {
  for (std::size_t i = 0; i < kCount; ++i) value.at[i] = __shfl_xor_sync(kWholeWarp, value.at[i], step);
  return value;
}
template <std::size_t kCount>
__device__ __forceinline__ void put_of_warp(TeamScratch& scratch, std::int32_t warp, const TeamWords<kCount>& value) {
  static_assert(kCount <= TeamScratch::kWords);
  for (std::size_t i = 0; i < kCount; ++i) scratch.words[i][warp] = value.at[i];
}
template <std::size_t kCount>
__device__ __forceinline__ void get_of_warp(const TeamScratch& scratch, std::int32_t warp, TeamWords<kCount>& value) {
  for (std::size_t i = 0; i < kCount; ++i) value.at[i] = scratch.words[i][warp];
}

class WarpLanes {
 public:
  __device__ __forceinline__ std::int32_t index() const { return static_cast<std::int32_t>(threadIdx.x % 32); }
  __device__ __forceinline__ std::int32_t count() const { return 32; }
  __device__ __forceinline__ std::int32_t least(std::int32_t value) const {
    return __reduce_min_sync(kWholeWarp, value);
  }
  __device__ __forceinline__ std::uint32_t least(std::uint32_t value) const {
    return __reduce_min_sync(kWholeWarp, value);
  }
  /// In two halves: what is compared by words of 64 bits takes five turns.
  __device__ __forceinline__ std::int64_t least(std::int64_t value) const {
    const auto high = static_cast<std::int32_t>(value >> 32);
    const std::int32_t least_high = least(high);
    const std::uint32_t low = least(high == least_high ? static_cast<std::uint32_t>(value) : 0xFFFFFFFFu);
    return (std::int64_t{least_high} << 32) + low;
  }
  __device__ __forceinline__ std::int32_t sum(std::int32_t value) const { return __reduce_add_sync(kWholeWarp, value); }
  __device__ __forceinline__ std::uint32_t sum(std::uint32_t value) const {
    return __reduce_add_sync(kWholeWarp, value);
  }
  __device__ __forceinline__ std::uint32_t greatest(std::uint32_t value) const {
    return __reduce_max_sync(kWholeWarp, value);
  }
  template <class T>
  __device__ __forceinline__ T least(T value) const {
    for (int step = 16; step > 0; step /= 2) {
      const T other = __shfl_xor_sync(kWholeWarp, value, step);
      value = other < value ? other : value;
    }
    return value;
  }
  template <class T>
  __device__ __forceinline__ T greatest(T value) const {
    for (int step = 16; step > 0; step /= 2) {
      const T other = __shfl_xor_sync(kWholeWarp, value, step);
      value = value < other ? other : value;
    }
    return value;
  }
  template <class T>
  __device__ __forceinline__ T sum(T value) const {
    for (int step = 16; step > 0; step /= 2) value = value + shuffle_xor(value, step);
    return value;
  }
  __device__ __forceinline__ bool any(bool value) const { return __any_sync(kWholeWarp, value) != 0; }
  __device__ __forceinline__ void wait() const { __syncwarp(); }
  template <class T>
  __device__ __forceinline__ T from(T value, std::int32_t lane) const {
    return shuffle_from(value, lane);
  }
};

/// One warp or two neighbours, of up to sixteen.
class PairLanes {
 public:
  __device__ __forceinline__ PairLanes(TeamScratch& scratch, bool two) : scratch_(scratch), two_(two) {}

  __device__ __forceinline__ std::int32_t index() const {
    return static_cast<std::int32_t>(threadIdx.x & (two_ ? 63u : 31u));
  }
  __device__ __forceinline__ std::int32_t count() const { return two_ ? 64 : 32; }
  template <class T>
  __device__ __forceinline__ T sum(T value) const {
    const T own = WarpLanes().sum(value);
    const std::int32_t turn = turns_++ % 2;
    return two_ ? own + others(own, turn) : own;
  }
  __device__ __forceinline__ std::uint32_t greatest(std::uint32_t value) const {
    const std::uint32_t own = WarpLanes().greatest(value);
    const std::int32_t turn = turns_++ % 2;
    return two_ ? max(own, others(own, turn)) : own;
  }
  __device__ __forceinline__ bool any(bool value) const {
    const bool own = WarpLanes().any(value);
    const std::int32_t turn = turns_++ % 2;
    return two_ ? others(own ? 1 : 0, turn) != 0 || own : own;
  }
  __device__ __forceinline__ void wait() const {
    if (two_) {
      meet();
    } else {
      __syncwarp();
    }
  }

 private:
  /// What the other warp has. \param turn of two places, so that none is written before it is read
  template <class T>
  __device__ __forceinline__ T others(T own, std::int32_t turn) const {
    static_assert(sizeof(T) <= sizeof(scratch_.words[0][0]));
    const auto warp = static_cast<std::int32_t>(threadIdx.x / 32);
    std::int64_t* const places = &scratch_.words[0][turn * 16];
    if (WarpLanes().index() == 0) places[warp] = static_cast<std::int64_t>(own);
    meet();
    return static_cast<T>(places[warp ^ 1]);
  }
  __device__ __forceinline__ static void meet() {
    constexpr int kFirst = 1;  // 0 is of all threads
    named_barrier(kFirst + static_cast<int>(threadIdx.x / 64), 64);
  }

  TeamScratch& scratch_;
  bool two_;
  mutable std::int32_t turns_ = 0;  ///< known when this is compiled, where calls follow each other
};

/// What needs no barrier.
struct TeamOperations {
  static __device__ __forceinline__ WarpLanes lanes() { return {}; }
  static __device__ __forceinline__ void leave() { asm volatile("exit;"); }
  template <class T>
  static __device__ __forceinline__ T* forgotten(T* pointer) {
    asm volatile("" : "+l"(pointer));
    return pointer;
  }

  // The widths that CUDA has atomics of.
  template <class T>
  static __device__ __forceinline__ auto* word(T& to) {
    if constexpr (sizeof(T) == 8) {
      if constexpr (static_cast<T>(-1) < static_cast<T>(0)) {
        return reinterpret_cast<long long*>(&to);
      } else {
        return reinterpret_cast<unsigned long long*>(&to);
      }
    } else {
      static_assert(sizeof(T) == 4);
      if constexpr (static_cast<T>(-1) < static_cast<T>(0)) {
        return reinterpret_cast<int*>(&to);
      } else {
        return reinterpret_cast<unsigned*>(&to);
      }
    }
  }
  template <class T>
  static __device__ __forceinline__ T peek(const T& from) {
    return *const_cast<const volatile T*>(&from);
  }
  template <class T>
  static __device__ __forceinline__ T fetch_add(T& to, T value) {
    if constexpr (sizeof(T) == 8) {
      return static_cast<T>(
          atomicAdd(reinterpret_cast<unsigned long long*>(&to), static_cast<unsigned long long>(value)));
    } else {
      return atomicAdd(word(to), value);
    }
  }
  template <class T>
  static __device__ __forceinline__ T fetch_least(T& to, T value) {
    return atomicMin(word(to), value);
  }
  template <class T>
  static __device__ __forceinline__ T fetch_greatest(T& to, T value) {
    return atomicMax(word(to), value);
  }
  template <class T>
  static __device__ __forceinline__ T compare_exchange(T& to, T expected, T value) {
    if constexpr (sizeof(T) == 8) {
      return static_cast<T>(atomicCAS(reinterpret_cast<unsigned long long*>(&to),
                                      static_cast<unsigned long long>(expected),
                                      static_cast<unsigned long long>(value)));
    } else {
      return static_cast<T>(
          atomicCAS(reinterpret_cast<unsigned*>(&to), static_cast<unsigned>(expected), static_cast<unsigned>(value)));
    }
  }
};

}  // namespace trunkline::cuda
