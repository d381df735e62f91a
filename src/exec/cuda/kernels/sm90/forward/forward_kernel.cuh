// The forward kernel for Hopper (compute capability 9.0a, head dimension 128): for each (item, KV head), with
// r = queries x g rows,
//
//   O[r, :] = sum over tokens t that row r sees of 2^(s[r, t] - L[r]) V[t, :],   s = scale log2(e) Q K^T,
//   L[r] = log2 of the sum of 2^s[r, t],
//
// with online softmax in fp32 and K and V read once for all r rows.
//
// Against the roofline: a token costs 512 bytes and 512 m FLOPs in a tile of m rows. From memory it takes 26 clocks of
// an SM's share (4.67 TB/s at 1.75 GHz), from L2 14; wgmma 8 clocks for each 64 rows at its peak, and exponentials 4.
// So a tile of 64 rows is bound by memory or L2, and one of 128 rows, 16 and 8 clocks, is so while its KV comes from
// memory. Portable tiles of 64 rows take 27: wgmma reads K and V once for 64 rows, mma.sync once for each 16.
//
// Twelve warps, one CTA on an SM. One producer walks tasks and cuts their tokens into stages of 64, of four slices of
// 16 tokens, a lane for each slice; it writes what the others need to know of them to records, up to 32
// stages ahead. The first 7 stages of each task are laid out beforehand, once for all layers of a step
// (task_prologues.cu). One begins TMA copies of K's slices, or of their halves where pages are no multiple
// of 16 tokens, into a ring of 12 slots, one those of V; this one and a third bring row by row (cp.async) Q, V of
// slices that differ by token and of short ones in a task's last stage, slices that begin inside a TMA tile, and pages
// that are no multiple of 8. Behind other short slices, who computes makes V zero. Five slots are on their way at once.
// The next task is taken when the last stages of the present one are at hand. Two consumer warpgroups hold 64 rows
// each, Q, O and weights in registers. In a tile of 64 rows both hold the same and take stages by turns; at the end
// each gets half of the columns of both sums through the ring's last two slots. In a tile of 128 rows each has its own
// half, and passes stages of which its rows see nothing without waiting for them: what both halves share is read once,
// and what one has for itself costs the other nothing. A stage's logits come while the next stage is looked for, and
// the product of its weights with V beside the next one's logits and their largest.
//
// Registers: 168 a thread at launch; then 208 for consumers (64 of O, 32 each of Q and logits, 16 of weights), 88 for
// producers. Shared memory: sizeof(SharedMemory), 223 KiB. Nothing spills.
#pragma once

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/sm90/forward/cache_maps.hpp"
#include "exec/cuda/kernels/sm90/forward/consumer.cuh"
#include "exec/cuda/kernels/sm90/forward/first_task.cuh"
#include "exec/cuda/kernels/sm90/forward/loader.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/task_scheduler.cuh"

namespace trunkline::cuda::sm90 {

/// A kernel's parameters come from cold memory 64 bytes at a time, and who needs some of several lines one after the
/// other waits for each. So one of each line is read here, side by side.
__device__ __forceinline__ void touch_parameters(const ForwardArgs& args, const CacheMaps& maps) {
  asm volatile("" ::"l"(args.plan.counts), "l"(args.step.prologues), "l"(args.layer.q), "l"(args.layer.k_strides.page),
               "l"(args.layer.out_token), "r"(args.layer.kv_heads), "r"(args.places), "l"(args.times),
               "l"(maps.k.page_octets), "l"(maps.v.page_octets), "r"(maps.octets));
}

/// Dynamic shared memory: sizeof(SharedMemory). \tparam kMerges whether partials are merged here; else the code for it,
/// 1,300 instructions between the end of a task and the next one's begin, is not there
template <class Element, bool kMerges>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(const __grid_constant__ ForwardArgs args, const __grid_constant__ CacheMaps maps) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<SharedMemory*>(memory);
  touch_parameters(args, maps);
  if (threadIdx.x / 32 == 0) init_slot_barriers(shared, static_cast<int>(threadIdx.x));
  if (threadIdx.x / 32 == kConsumerWarps) init_batch_barriers(shared, static_cast<int>(threadIdx.x % 32));
  wait_for_kernel_before();
  const FirstTask first(args, maps.octets != 0);
  first.begin_copies(shared);
  if (threadIdx.x == kConsumerThreads) first.announce(shared);
  wait_for_copies();
  __syncthreads();
  let_next_kernel_come();
  // From one lane, so that the compiler knows it for the same in all.
  const int warp = __shfl_sync(kWholeWarp, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < kConsumerWarps) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    const int group = warp / (kGroupThreads / 32);
    Consumer<Element, kMerges>(args, shared, group, static_cast<int>(threadIdx.x) % kGroupThreads).run();
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int producer = warp - kConsumerWarps;
    if (producer == 0) {
      TaskScheduler(args, shared, maps.octets != 0, lane).run();
    } else {
      Loader(args, maps, shared, producer - 1, lane).run();
    }
  }
}

}  // namespace trunkline::cuda::sm90
