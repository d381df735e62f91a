// The widener warps, for K and V of 8 bits: make a slot's rows 16 bits wide in place, in the layout that wgmma reads.
//
// Bound. A token's K and V are 2 d bytes, and 13 clocks of an SM's share of memory at d = 128 (4.67 TB/s at 1.75 GHz).
// Widening them takes d conversions of pairs, 2 to 4 clocks of the SM, and moves 6 d bytes through shared memory, 6
// clocks; wgmma reads another 4 d bytes for each 64 rows, 4 clocks. So one widening serves all rows of a tile, and a
// tile of 64 rows stays bound by memory. Queries of bf16 take four instructions for each pair, not one: 8 clocks.
//
// Each of four warps has a slice of 16 tokens, whose 8-bit rows lie in the second half of the slice's own place, so
// that no other warp reads where it writes.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/widen.cuh"
#include "exec/cuda/kernels/sm90/forward/record_reader.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"
#include "exec/cuda/kernels/sm90/forward/wgmma.cuh"

namespace trunkline::cuda::sm90 {

/// \tparam S Traits \tparam kE5M2 K and V are e5m2, else e4m3
template <class Element, class S, bool kE5M2>
class Widener {
  static constexpr int kLanesOfRow = S::kKvRowBytes / 16;  // 4, 8, 16
  static constexpr int kRowsAtOnce = 32 / kLanesOfRow;
  // Words of 16 bytes that a lane reads before it writes: 2, 4, and 4 of each octet at d = 256, where 8 would be too
  // many registers.
  static constexpr int kWords = (S::kDim == 256 ? kOctetRows : kSliceTokens) / kRowsAtOnce;

 public:
  /// \param slice index of the warp's slice
  __device__ __forceinline__ Widener(SharedMemory<S>& shared, int slice, int lane)
      : shared_(shared), records_(shared, lane), slice_(slice), lane_(lane) {}

  __device__ __forceinline__ void run() {
    for (; records_.next(); records_.pass()) {
      const StageRecord* const batch = records_.batch();
      const bool opens = batch->kind == StageRecord::kQueries;
      const int queries = opens ? records_.task().halves : 0;
      const int stages = batch->batch_records - (opens ? 1 : 0);
#pragma unroll 1
      for (int slot = 0; slot < queries; ++slot) take_slot(false);
#pragma unroll 1
      for (int slot = 0; slot < 2 * stages; ++slot) take_slot(true);
    }
  }

 private:
  // Makes the next slot full. \param widens whether it has K or V, else it has Q
  __device__ __forceinline__ void take_slot(bool widens) {
    barrier_wait(records_.copied(), records_.position().parity());
    if (widens) widen_slice(shared_address(shared_.slots[records_.slot()]) + S::kSliceBytes * slice_);
    const std::uint32_t full = shared_address(&shared_.full[records_.slot()]);
    __syncwarp();
    if (lane_ == 0) barrier_arrive(full);
    records_.pass_without_arrival();
  }

  // The wide rows of the first octet lie before all 8-bit rows, those of the second over them. So the words of a slice,
  // or those of one octet after the other, are read before their places are written.
  __device__ __forceinline__ void widen_slice(std::uint32_t place) const {
    const int chunk = lane_ % kLanesOfRow;
    const int row = lane_ / kLanesOfRow;
    const std::uint32_t from = place + S::kKvOffset + row * S::kKvRowBytes + 16 * chunk;
    // Lanes of a row's first half write their first chunk first, those of the second half their second: eight lanes
    // then write to eight places of 16 bytes of the banks.
    const int first = chunk / 4 % 2;
    const std::uint32_t to_one = place + chunk_offset<S>(row, 2 * chunk + first);
    const std::uint32_t to_other = place + chunk_offset<S>(row, 2 * chunk + 1 - first);
#pragma unroll
    for (int first_row = 0; first_row < kSliceTokens; first_row += kWords * kRowsAtOnce) {
      uint4 words[kWords];
#pragma unroll
      for (int i = 0; i < kWords; ++i)
        words[i] = load_shared_16_bytes(from + (first_row + i * kRowsAtOnce) * S::kKvRowBytes);
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const std::uint32_t one[2] = {first == 0 ? words[i].x : words[i].z, first == 0 ? words[i].y : words[i].w};
        const std::uint32_t other[2] = {first == 0 ? words[i].z : words[i].x, first == 0 ? words[i].w : words[i].y};
        const int rows = first_row + i * kRowsAtOnce;
        store_shared_16_bytes(rows_ahead<S>(to_one, rows), widen_8(one[0], one[1]));
        store_shared_16_bytes(rows_ahead<S>(to_other, rows), widen_8(other[0], other[1]));
      }
    }
    fence_ordinary_writes();
  }

  static __device__ __forceinline__ uint4 widen_8(std::uint32_t first, std::uint32_t second) {
    const Widened low = widen<Element, kE5M2>(first);
    const Widened high = widen<Element, kE5M2>(second);
    return {low.low, low.high, high.low, high.high};
  }

  static __device__ __forceinline__ uint4 load_shared_16_bytes(std::uint32_t from) {
    uint4 words;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(from)
                 : "memory");
    return words;
  }
  static __device__ __forceinline__ void store_shared_16_bytes(std::uint32_t to, const uint4& words) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words.x), "r"(words.y), "r"(words.z),
                 "r"(words.w)
                 : "memory");
  }

  SharedMemory<S>& shared_;
  RecordReader<S> records_;
  int slice_;
  int lane_;
};

}  // namespace trunkline::cuda::sm90
