// The thread groups of the planner (plan/device/thread_group.hpp) on a device: a thread block, a warp, part of a warp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/util_ptx.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

#include "base/host_device.hpp"

namespace trunkline::cuda {

struct GroupAtomics {
  __device__ static std::int32_t fetch_add(std::int32_t& to, std::int32_t value) { return atomicAdd(&to, value); }
  __device__ static std::uint32_t fetch_add(std::uint32_t& to, std::uint32_t value) { return atomicAdd(&to, value); }
  __device__ static std::uint64_t fetch_add(std::uint64_t& to, std::uint64_t value) {
    return atomicAdd(reinterpret_cast<unsigned long long*>(&to), static_cast<unsigned long long>(value));
  }
  __device__ static std::int32_t fetch_min(std::int32_t& to, std::int32_t value) { return atomicMin(&to, value); }
  __device__ static std::int32_t compare_exchange(std::int32_t& to, std::int32_t expected, std::int32_t value) {
    return atomicCAS(&to, expected, value);
  }
};

struct Plus {
  template <class T>
  __device__ T operator()(const T& a, const T& b) const {
    return a + b;
  }
};

/// The thread group of kLanes neighbouring threads of a warp.
template <std::int32_t kLanes>
class WarpGroup : public GroupAtomics {
 public:
  __device__ std::int32_t rank() const { return static_cast<std::int32_t>(threadIdx.x % kLanes); }
  __device__ std::int32_t size() const { return kLanes; }
  __device__ void sync() const { __syncwarp(mask()); }

  template <class F>
  __device__ void for_each(std::int32_t count, F f) const {
    for (std::int32_t i = rank(); i < count; i += kLanes) f(i);
    sync();
  }
  template <class Value, class Put>
  __device__ auto exclusive_scan(std::int32_t count, Value value, Put put) const {
    using T = decltype(value(0));
    using Scan = cub::WarpScan<T, kLanes>;
    typename Scan::TempStorage unused;
    T before{};
    for (std::int32_t base = 0; base < count; base += kLanes) {
      const std::int32_t i = base + rank();
      const T mine = i < count ? value(i) : T{};
      T within;
      T all;
      Scan(unused).ExclusiveScan(mine, within, T{}, Plus(), all);
      if (i < count) put(i, before + within);
      before = before + all;
    }
    sync();
    return before;
  }
  template <class T, class Value, class Op>
  __device__ T reduce(std::int32_t count, T none, Value value, Op op) const {
    using Reduce = cub::WarpReduce<T, kLanes>;
    typename Reduce::TempStorage unused;
    T mine = none;
    for (std::int32_t i = rank(); i < count; i += kLanes) mine = op(mine, value(i));
    const T all = cub::ShuffleIndex<kLanes>(Reduce(unused).Reduce(mine, op), 0, mask());
    sync();
    return all;
  }
  template <class F>
  __device__ void once(F f) const {
    if (rank() == 0) f();
    sync();
  }

 private:
  __device__ std::uint32_t mask() const {
    if constexpr (kLanes == 32) return 0xFFFFFFFFu;
    const std::uint32_t first = threadIdx.x % 32 / kLanes * kLanes;
    return ((1u << kLanes % 32) - 1) << first;
  }
};

/// The thread group of all kThreads threads of a block.
template <std::int32_t kThreads>
class BlockGroup : public GroupAtomics {
 public:
  /// \param scratch shared memory of kScratchBytes, aligned to 16 bytes
  __device__ explicit BlockGroup(std::byte* scratch) : scratch_(scratch) {}
  static constexpr std::size_t kScratchBytes = 4096;

  __device__ std::int32_t rank() const { return static_cast<std::int32_t>(threadIdx.x); }
  __device__ std::int32_t size() const { return kThreads; }
  __device__ void sync() const { __syncthreads(); }

  template <class F>
  __device__ void for_each(std::int32_t count, F f) const {
    for (std::int32_t i = rank(); i < count; i += kThreads) f(i);
    sync();
  }
  template <class F>
  __device__ void for_each_warp(std::int32_t count, F f) const {
    for_each_part<32>(count, f);
  }
  template <class F>
  __device__ void for_each_subwarp(std::int32_t count, F f) const {
    for_each_part<8>(count, f);
  }
  template <class Value, class Put>
  __device__ auto exclusive_scan(std::int32_t count, Value value, Put put) const {
    using T = decltype(value(0));
    // Each thread sums a run of neighbours, so that one scan of the block serves any count.
    const std::int32_t each = ceil_div(count, kThreads);
    const std::int32_t begin = min(rank() * each, count);
    const std::int32_t end = min(begin + each, count);
    T mine{};
    for (std::int32_t i = begin; i < end; ++i) mine = mine + value(i);
    using Scan = cub::BlockScan<T, kThreads, cub::BLOCK_SCAN_WARP_SCANS>;
    T before;
    T all;
    Scan(storage<typename Scan::TempStorage>()).ExclusiveScan(mine, before, T{}, Plus(), all);
    for (std::int32_t i = begin; i < end; ++i) {
      const T of_i = value(i);
      put(i, before);
      before = before + of_i;
    }
    sync();
    return all;
  }
  template <class T, class Value, class Op>
  __device__ T reduce(std::int32_t count, T none, Value value, Op op) const {
    T mine = none;
    for (std::int32_t i = rank(); i < count; i += kThreads) mine = op(mine, value(i));
    using Reduce = cub::BlockReduce<T, kThreads>;
    const T all = Reduce(storage<typename Reduce::TempStorage>()).Reduce(mine, op);
    return broadcast(all);
  }
  /// Sorts by Batcher's bitonic network, for any number of keys: keys behind the last count as greater than all.
  template <class Key>
  __device__ void sort(Key* keys, std::int32_t count) const {
    for (std::int32_t run = 2; run / 2 < count; run *= 2) {
      merge(keys, count, run, [run](std::int32_t pair) {
        const std::int32_t offset = pair & (run / 2 - 1);
        const std::int32_t base = 2 * (pair - offset);
        return Pair{base + offset, base + run - 1 - offset};
      });
      for (std::int32_t step = run / 4; step > 0; step /= 2) {
        merge(keys, count, 2 * step, [step](std::int32_t pair) {
          const std::int32_t low = 2 * pair - (pair & (step - 1));
          return Pair{low, low + step};
        });
      }
    }
    sync();
  }
  template <class F>
  __device__ void once(F f) const {
    if (rank() == 0) f();
    sync();
  }

 private:
  struct Pair {
    std::int32_t low, high;
  };
  template <std::int32_t kLanes, class F>
  __device__ void for_each_part(std::int32_t count, F f) const {
    WarpGroup<kLanes> lanes;
    for (std::int32_t i = rank() / kLanes; i < count; i += kThreads / kLanes) f(i, lanes);
    sync();
  }
  /// Swaps pairs that are not in order. Pairs are numbered by rising first key, and lie within `span` keys.
  template <class Key, class PairAt>
  __device__ void merge(Key* keys, std::int32_t count, std::int32_t span, PairAt pair_at) const {
    for (std::int32_t i = rank();; i += kThreads) {
      const Pair pair = pair_at(i);
      if (pair.low >= count) break;
      if (pair.high >= count) continue;
      const Key low = keys[pair.low];
      const Key high = keys[pair.high];
      if (high < low) {
        keys[pair.low] = high;
        keys[pair.high] = low;
      }
    }
    // A warp has the pairs of 64 keys. A longer span follows on a span of two, and on the last span of a run.
    if (span > 32 || span == 2) {
      sync();
    } else {
      __syncwarp();
    }
  }
  template <class Storage>
  __device__ Storage& storage() const {
    static_assert(sizeof(Storage) <= kScratchBytes / 2);
    return *reinterpret_cast<Storage*>(scratch_);
  }
  /// Returns the value of the first thread to all threads.
  template <class T>
  __device__ T broadcast(const T& value) const {
    static_assert(sizeof(T) <= kScratchBytes / 2);
    T* const place = reinterpret_cast<T*>(scratch_ + kScratchBytes / 2);
    if (rank() == 0) new (place) T(value);
    sync();
    const T all = *place;
    sync();
    return all;
  }

  std::byte* scratch_;
};

}  // namespace trunkline::cuda
