// The team of one block; see plan/team/team.hpp.
#pragma once

#include <cstdint>

#include "exec/cuda/planner/team_operations.cuh"

namespace trunkline::cuda {

/// Of 64 .. 512 threads, a power of two. \tparam kCalls sums and scans are calls of one function, where code that is
/// run once is waited for longer than it runs; threads of few registers have none left for calls
template <bool kCalls>
class BlockTeamOf : public TeamOperations {
 public:
  using Scratch = TeamScratch;
  static constexpr bool kOneBlock = true;
  static constexpr std::int32_t kLanes = 32;

  __device__ __forceinline__ explicit BlockTeamOf(Scratch& scratch) : scratch_(scratch) {}

  template <class F>
  __device__ __forceinline__ void each(std::int32_t count, F f) {
    each_at_last(count, f);
    __syncthreads();
  }
  template <class F>
  __device__ __forceinline__ void each_at_last(std::int32_t count, F f) {
#pragma unroll 1
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += threads()) f(i);
  }
  template <class F>
  __device__ __forceinline__ std::int32_t each_at_last_of_spared(std::int32_t count, std::int32_t, std::int32_t, F f) {
    each_at_last(count, f);
    return 0;
  }
  __device__ __forceinline__ static StridedPart part(bool, std::int32_t, std::int32_t) {
    return {static_cast<std::int32_t>(threadIdx.x), threads()};
  }
  template <class F>
  __device__ __forceinline__ void each_warp(std::int32_t count, F f) {
#pragma unroll 1
    for (std::int32_t i = warp(); i < count; i += threads() / 32) f(i, WarpLanes());
    __syncthreads();
  }
  template <class F>
  __device__ __forceinline__ void each_warp_for(std::int32_t count, std::int32_t things, F f) {
    const bool two = things > kLanes;
    const std::int32_t i = warp() >> (two ? 1 : 0);
    if (i < count) f(i, PairLanes(scratch_, two));
    __syncthreads();
  }
  template <class F>
  __device__ __forceinline__ static void pass(bool, F f) {
    f();
  }
  template <class F>
  __device__ __forceinline__ static void pass_where(bool, F f) {
    f();
  }
  template <class F, class Thing>
  __device__ __forceinline__ void each_warp_telling(bool, std::int32_t count, const Telling&, std::int32_t, F f,
                                                    Thing) {
    each_warp(count, f);
  }
  __device__ __forceinline__ static BlockShare share(std::int32_t count, std::int32_t) {
    return BlockShare::of(count, 0, 1);
  }
  template <class T>
  __device__ __forceinline__ static void tell_blocks(const WarpLanes&, T*) {}
  __device__ __forceinline__ static bool has_own(const void*) {
    return true;
  }
  __device__ __forceinline__ static bool leads(std::int32_t = 0) {
    return true;
  }
  __device__ __forceinline__ static bool can_spare(std::int32_t) {
    return false;
  }
  __device__ __forceinline__ static bool spares(std::int32_t) {
    return false;
  }
  __device__ __forceinline__ static bool takes(std::int32_t) {
    return true;
  }
  template <class Next, class F, class Last>
  __device__ __forceinline__ void lead_rounds(Next next, F f, Last last) {
#pragma unroll 1
    for (std::int32_t round = 0;; ++round) {
      const std::int32_t count = next(*this, round);
      if (count == 0) break;
      each_warp(count, f);
    }
    last(*this);
  }
  template <class F, class Told>
  __device__ __forceinline__ void each_block(std::int32_t count, F f, Told) {
    for (std::int32_t i = 0; i < count; ++i) f(i, *this);
    __syncthreads();
  }
  template <class F>
  __device__ __forceinline__ void lead(F f) {
    f(*this);
  }
  // As of ClusterTeamOf: a block alone waits for no other.
  __device__ __forceinline__ static void begin() {}
  __device__ __forceinline__ static void arrive() {}
  __device__ __forceinline__ static void meet() {}
  template <class F>
  __device__ __forceinline__ void own(F f) {
    f(*this, true);
  }
  template <class F>
  __device__ __forceinline__ void own_or_lead(bool, F f) {
    f(*this);
  }
  template <class F>
  __device__ __forceinline__ void once(F f) {
    if (threadIdx.x == 0) f();
    __syncthreads();
  }

  template <class T>
  __device__ T scan_exclusive(T* values, std::int32_t count) {
    return scan_chunks<T>(
        count, [&](std::int32_t i) { return values[i]; }, [&](std::int32_t i, T before) { values[i] = before; },
        [this](T value) { return kCalls ? sums_apart(scratch_, value) : sums_before(scratch_, value); });
  }
  template <class T, class F, class Put>
  __device__ __forceinline__ T scan(std::int32_t count, F f, Put put) {
    return scan_chunks<T, true>(count, f, put, [this](T value) { return sums_before(scratch_, value); });
  }
  template <class F, class Put>
  __device__ __forceinline__ std::int32_t select(std::int32_t count, F f, Put put) {
    std::int32_t before = 0;
#pragma unroll 1
    for (std::int32_t begin = 0; begin < count; begin += threads()) {
      const std::int32_t i = begin + static_cast<std::int32_t>(threadIdx.x);
      const bool chosen = i < count && f(i);
      const unsigned of_warp = __ballot_sync(kWholeWarp, chosen);
      if (lane() == 0) scratch_.of_warp[warp()] = __popc(of_warp);
      __syncthreads();
      const std::int32_t mine = lane() < threads() / 32 ? static_cast<std::int32_t>(scratch_.of_warp[lane()]) : 0;
      const std::int32_t warps_before = __reduce_add_sync(kWholeWarp, lane() < warp() ? mine : 0);
      const unsigned lanes_before = of_warp & ((1U << lane()) - 1U);
      if (chosen) put(before + warps_before + __popc(lanes_before), i);
      before += __reduce_add_sync(kWholeWarp, mine);
      __syncthreads();
    }
    return before;
  }
  template <class F>
  __device__ __forceinline__ bool any(std::int32_t count, F f) {
    bool found = false;
#pragma unroll 1
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += threads()) found = f(i) || found;
    return __syncthreads_or(found ? 1 : 0) != 0;
  }
  template <class T, class F>
  __device__ __forceinline__ T sum(std::int32_t count, T none, F f) {
    T value{};
#pragma unroll 1
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += threads()) {
      value = value + static_cast<T>(f(i));
    }
    return none + (kCalls ? sum_apart(scratch_, value) : sum_of_all(scratch_, value));
  }
  template <class T, class F>
  __device__ __forceinline__ T least(std::int32_t count, T none, F f) {
    return reduce<T>(count, none, f, [](T a, T b) { return b < a ? b : a; });
  }
  template <class T, class F>
  __device__ __forceinline__ T greatest(std::int32_t count, T none, F f) {
    return reduce<T>(count, none, f, [](T a, T b) { return a < b ? b : a; });
  }

  __device__ __forceinline__ static std::int32_t threads() {
    return static_cast<std::int32_t>(blockDim.x);
  }
  __device__ __forceinline__ static std::int32_t lane() {
    return static_cast<std::int32_t>(threadIdx.x % 32);
  }
  __device__ __forceinline__ static std::int32_t warp() {
    return static_cast<std::int32_t>(threadIdx.x / 32);
  }

 private:
  /// \tparam kPutAll put(count, sum of all), too, beside the last chunk
  template <class T, bool kPutAll = false, class F, class Put, class Add>
  __device__ __forceinline__ T scan_chunks(std::int32_t count, F f, Put put, Add add) {
    T before{};
#pragma unroll 1
    for (std::int32_t begin = 0; begin < count; begin += threads()) {
      const std::int32_t i = begin + static_cast<std::int32_t>(threadIdx.x);
      T value{};
      if (i < count) value = f(i);
      const Sums<T> sums = add(value);
      if (i < count) put(i, static_cast<T>(before + sums.before));
      before = before + sums.all;
      if (kPutAll && begin + threads() >= count && threadIdx.x == 0) put(count, before);
      __syncthreads();
    }
    if (kPutAll && count == 0) {
      if (threadIdx.x == 0) put(0, before);
      __syncthreads();
    }
    return before;
  }

  // Of one value a thread.
  template <class T>
  struct Sums {
    T before;  // of the threads before this one
    T all;
  };
  template <class T>
  static __device__ __forceinline__ Sums<T> sums_before(Scratch& scratch, T value) {
    const T through = sum_through(value);
    if (lane() == 31) put_of_warp(scratch, warp(), through);
    __syncthreads();
    T mine{};
    if (lane() < threads() / 32) get_of_warp(scratch, lane(), mine);
    const T warps = sum_through(mine);
    const T warps_before = shuffle_from(static_cast<T>(warps - mine), warp());
    return {static_cast<T>(warps_before + through - value), shuffle_from(warps, 31)};
  }
  template <class T>
  static __device__ __noinline__ Sums<T> sums_apart(Scratch& scratch, T value) {
    return sums_before(scratch, value);
  }
  template <class T>
  static __device__ __forceinline__ T sum_through(T value) {
#pragma unroll 1
    for (int step = 1; step < 32; step *= 2) {
      const T left = shuffle_up(value, step);
      if (lane() >= step) value = value + left;
    }
    return value;
  }
  template <class T>
  static __device__ __noinline__ T sum_apart(Scratch& scratch, T value) {
    return sum_of_all(scratch, value);
  }
  template <class T>
  static __device__ __forceinline__ T sum_of_all(Scratch& scratch, T value) {
    value = WarpLanes().sum(value);
    if (lane() == 0) put_of_warp(scratch, warp(), value);
    __syncthreads();
    T mine{};
    if (lane() < threads() / 32) get_of_warp(scratch, lane(), mine);
    value = WarpLanes().sum(mine);
    __syncthreads();
    return value;
  }

  template <class T, class F, class Join>
  __device__ T reduce(std::int32_t count, T none, F f, Join join) {
    T value = none;
#pragma unroll 1
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += threads())
      value = join(value, static_cast<T>(f(i)));
    for (int step = 16; step > 0; step /= 2) value = join(value, __shfl_xor_sync(kWholeWarp, value, step));
    if (lane() == 0) scratch_.of_warp[warp()] = static_cast<std::int64_t>(value);
    __syncthreads();
    value = lane() < threads() / 32 ? static_cast<T>(scratch_.of_warp[lane()]) : none;
    for (int step = 16; step > 0; step /= 2) value = join(value, __shfl_xor_sync(kWholeWarp, value, step));
    __syncthreads();
    return value;
  }

  Scratch& scratch_;
};

using BlockTeam = BlockTeamOf<false>;

}  // namespace trunkline::cuda
