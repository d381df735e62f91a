// Thread block clusters: barriers, and stores to the shared memory of other CTAs.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda {

__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ std::uint32_t cluster_blocks() {
  std::uint32_t blocks;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}

/// Cluster barrier, called by all threads; each must then call cluster_wait() once. It orders the start of all CTAs and
/// the initialisation of their mbarriers. It is relaxed, and does not order earlier writes: that would first wait for
/// memory.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Initialises an mbarrier for bytes that CTAs of the cluster store here. They may store after the cluster barrier.
__device__ __forceinline__ void init_for_bytes(std::uint32_t barrier) {
  barrier_init(barrier, 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// Sets the number of bytes expected in a phase, once a phase. Some of them may have arrived already.
__device__ __forceinline__ void expect_bytes(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Waits until all expected bytes have arrived, so that stores of other CTAs can be read. \param parity of the phase
__device__ __forceinline__ void wait_for_bytes(std::uint32_t barrier, std::uint32_t parity = 0) {
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

/// Maps an address of shared memory to the same variable of another CTA of the cluster.
__device__ __forceinline__ std::uint32_t address_at(std::uint32_t address, std::uint32_t rank) {
  std::uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
/// Stores to another CTA asynchronously; the bytes arrive at an mbarrier of that CTA.
__device__ __forceinline__ void store_there(std::uint32_t address, std::uint32_t barrier, const float4& value) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, [%1];" ::"r"(address),
      "r"(barrier), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
      : "memory");
}
__device__ __forceinline__ void store_there(std::uint32_t address, std::uint32_t barrier, const uint4& value) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%2, %3, %4, %5}, [%1];" ::"r"(address),
      "r"(barrier), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
      : "memory");
}
__device__ __forceinline__ void store_there(std::uint32_t address, std::uint32_t barrier, std::uint32_t value) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %2, [%1];" ::"r"(address),
               "r"(barrier), "r"(value)
               : "memory");
}
__device__ __forceinline__ void store_there(std::uint32_t address, std::uint32_t barrier, const float2& value) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%2, %3}, [%1];" ::"r"(address),
               "r"(barrier), "f"(value.x), "f"(value.y)
               : "memory");
}

}  // namespace trunkline::cuda
