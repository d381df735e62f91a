// Copies by the copy engine (TMA), and mbarriers that count their bytes.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda::sm90 {

/// Adds bytes to those that the present phase of an mbarrier expects. Called by one lane.
__device__ __forceinline__ void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// Returns true in one lane of a whole warp; the compiler knows that it is one lane.
__device__ __forceinline__ bool elect_one() {
  std::uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xFFFFFFFF; selp.b32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

/// Arrives `arrivals` times. Called by one lane.
__device__ __forceinline__ void barrier_arrive_times(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0], %1; }" ::"r"(barrier), "r"(arrivals)
               : "memory");
}

/// Arrives `arrivals` times, in one lane of the warp. Called by a whole warp.
__device__ __forceinline__ void barrier_arrive_elected(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile(
      "{ .reg .pred p; .reg .b64 state; elect.sync _|p, 0xFFFFFFFF; @p mbarrier.arrive.shared.b64 state, [%0], %1; }" ::
          "r"(barrier),
      "r"(arrivals)
      : "memory");
}

/// Prefetches a tensor map.
__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Copies a TMA tile, whose bytes the mbarrier expects. Called by one lane. \param octet the tile's first octet in the
/// map
__device__ __forceinline__ void copy_tma_tile(std::uint32_t to, const CUtensorMap& map, int head, int octet,
                                              std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %2, %3, "
      "%4}], [%5];" ::"r"(to),
      "l"(&map), "r"(0), "r"(head), "r"(octet), "r"(barrier)
      : "memory");
}

/// Copies a whole slice by CacheMap::slice, as copy_tma_tile. \param panel of all KV heads \param token its first
__device__ __forceinline__ void copy_tma_slice(std::uint32_t to, const CUtensorMap& map, int panel, int token,
                                               std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %3, %2, "
      "%4}], [%5];" ::"r"(to),
      "l"(&map), "r"(0), "r"(panel), "r"(token), "r"(barrier)
      : "memory");
}

/// Copies contiguous bytes, which the mbarrier expects. Size and addresses are multiples of 16. Called by one lane.
__device__ __forceinline__ void copy_bytes(std::uint32_t to, const void* from, std::uint32_t bytes,
                                           std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/// Makes mbarriers that this thread has initialised visible to copies.
__device__ __forceinline__ void show_barriers_to_copies() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Orders ordinary writes to shared memory before later accesses of wgmma and TMA (fence to the async proxy).
__device__ __forceinline__ void fence_ordinary_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace trunkline::cuda::sm90
