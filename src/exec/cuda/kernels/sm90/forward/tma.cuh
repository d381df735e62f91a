// Copies by the copy engine (TMA), and barriers that count their bytes.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda::sm90 {

/// By one lane. Its phase then also waits for so many bytes of TMA tile copies.
__device__ __forceinline__ void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// True in one lane of a whole warp, of which the compiler knows that it is alone.
__device__ __forceinline__ bool elect_one() {
  std::uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xFFFFFFFF; selp.b32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

/// By one lane, for so many arrivals.
__device__ __forceinline__ void barrier_arrive_times(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0], %1; }" ::"r"(barrier), "r"(arrivals)
               : "memory");
}

/// By a whole warp: one lane makes so many arrivals for it.
__device__ __forceinline__ void barrier_arrive_elected(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile(
      "{ .reg .pred p; .reg .b64 state; elect.sync _|p, 0xFFFFFFFF; @p mbarrier.arrive.shared.b64 state, [%0], %1; }" ::
          "r"(barrier),
      "r"(arrivals)
      : "memory");
}

/// A map's first use then need not wait for it.
__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// By one lane: a TMA tile, whose bytes the barrier was told of. \param octet of the map, the TMA tile's first
__device__ __forceinline__ void copy_tma_tile(std::uint32_t to, const CUtensorMap& map, int head, int octet,
                                              std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %2, %3, "
      "%4}], [%5];" ::"r"(to),
      "l"(&map), "r"(0), "r"(head), "r"(octet), "r"(barrier)
      : "memory");
}

/// By one lane: bytes that lie side by side, of which the barrier was told: multiples of 16, at addresses that are.
__device__ __forceinline__ void copy_bytes(std::uint32_t to, const void* from, std::uint32_t bytes,
                                           std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/// By one thread: barriers that it has initialised, before copies arrive at them.
__device__ __forceinline__ void show_barriers_to_copies() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// What was written to shared memory by ordinary instructions, before what products and TMA tile copies do there.
__device__ __forceinline__ void fence_ordinary_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace trunkline::cuda::sm90
