// Copies by the copy engine (TMA), and barriers that count their bytes.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "exec/cuda/common/ptx.cuh"

namespace trunkline::cuda::sm90 {

/// By one lane. Its phase then also waits for so many bytes of box copies.
__device__ __forceinline__ void barrier_arrive_expecting(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(barrier), "r"(bytes)
               : "memory");
}

/// By a whole warp: one lane arrives for it.
__device__ __forceinline__ void barrier_arrive_once(std::uint32_t barrier) {
  asm volatile(
      "{ .reg .pred p; .reg .b64 state; elect.sync _|p, 0xFFFFFFFF; @p mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(
          barrier)
      : "memory");
}

/// The barrier's phase also waits for the copies that this thread has begun; another arrival of the warp is still due.
__device__ __forceinline__ void barrier_await_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

/// By one lane: a box of a map, whose bytes the barrier was told of.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int element, int place, int head,
                                         int page, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(to),
      "l"(&map), "r"(element), "r"(place), "r"(head), "r"(page), "r"(barrier)
      : "memory");
}

/// What was written to shared memory by ordinary instructions, before what products and box copies do there.
__device__ __forceinline__ void fence_ordinary_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace trunkline::cuda::sm90
