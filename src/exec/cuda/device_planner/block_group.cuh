// A thread block, and a warp, as the thread groups that planning is written for (plan/device/thread_group.hpp).
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
  __device__ static std::int32_t fetch_max(std::int32_t& to, std::int32_t value) { return atomicMax(&to, value); }
};

/// Threads of a warp, all of which call alike.
class WarpGroup : public GroupAtomics {
 public:
  static constexpr std::int32_t kLanes = 32;

  __device__ std::int32_t rank() const { return static_cast<std::int32_t>(threadIdx.x % kLanes); }
  __device__ std::int32_t size() const { return kLanes; }
  __device__ void sync() const { __syncwarp(); }

  template <class F>
  __device__ void for_each(std::int32_t count, F f) const {
    for (std::int32_t i = rank(); i < count; i += kLanes) f(i);
    sync();
  }
  template <class Value, class Put>
  __device__ auto exclusive_scan(std::int32_t count, Value value, Put put) const {
    using T = decltype(value(0));
    using Scan = cub::WarpScan<T>;
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
    typename cub::WarpReduce<T>::TempStorage unused;
    T mine = none;
    for (std::int32_t i = rank(); i < count; i += kLanes) mine = op(mine, value(i));
    const T all = cub::ShuffleIndex<kLanes>(cub::WarpReduce<T>(unused).Reduce(mine, op), 0, 0xFFFFFFFFu);
    sync();
    return all;
  }
  template <class F>
  __device__ void once(F f) const {
    if (rank() == 0) f();
    sync();
  }

  struct Plus {
    template <class T>
    __device__ T operator()(const T& a, const T& b) const {
      return a + b;
    }
  };
};

/// All threads of a block.
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
    WarpGroup warp;
    for (std::int32_t i = rank() / WarpGroup::kLanes; i < count; i += kThreads / WarpGroup::kLanes) f(i, warp);
    sync();
  }
  template <class Value, class Put>
  __device__ auto exclusive_scan(std::int32_t count, Value value, Put put) const {
    using T = decltype(value(0));
    // Each thread has neighbours, so that one scan of the block serves any count.
    const std::int32_t each = ceil_div(count, kThreads);
    const std::int32_t begin = least(rank() * each, count);
    const std::int32_t end = least(begin + each, count);
    T mine{};
    for (std::int32_t i = begin; i < end; ++i) mine = mine + value(i);
    using Scan = cub::BlockScan<T, kThreads, cub::BLOCK_SCAN_WARP_SCANS>;
    T before;
    T all;
    Scan(storage<typename Scan::TempStorage>()).ExclusiveScan(mine, before, T{}, WarpGroup::Plus(), all);
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
  /// Bitonic: Batcher's network for any number of keys, as if those behind the last were greater than all.
  template <class Key>
  __device__ void sort(Key* keys, std::int32_t count) const {
    for (std::int32_t run = 2; run / 2 < count; run *= 2) {
      merge(keys, count, [run](std::int32_t pair) {
        const std::int32_t offset = pair & (run / 2 - 1);
        const std::int32_t base = 2 * (pair - offset);
        return Pair{base + offset, base + run - 1 - offset};
      });
      for (std::int32_t step = run / 4; step > 0; step /= 2) {
        merge(keys, count, [step](std::int32_t pair) {
          const std::int32_t low = 2 * pair - (pair & (step - 1));
          return Pair{low, low + step};
        });
      }
    }
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
  /// Swaps pairs that are not in order. Pairs are numbered by rising first element.
  template <class Key, class PairAt>
  __device__ void merge(Key* keys, std::int32_t count, PairAt pair_at) const {
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
    sync();
  }
  template <class Storage>
  __device__ Storage& storage() const {
    static_assert(sizeof(Storage) <= kScratchBytes / 2);
    return *reinterpret_cast<Storage*>(scratch_);
  }
  /// \param value of the first thread
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
