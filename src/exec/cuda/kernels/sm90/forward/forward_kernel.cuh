// The forward kernel for Hopper (compute capability 9.0a; head dimensions 64, 128 and 256).
//
// Problem. For each (item, KV head), with r = queries x g rows,
//
//   O[r, :] = sum over tokens t visible to row r of 2^(s[r, t] - L[r]) V[t, :],   s = scale log2(e) Q K^T,
//   L[r] = log2 of the sum of 2^s[r, t],
//
// with online softmax in fp32. K and V are read once for all r rows.
//
// Bound. A token costs 4 d bytes and 4 d m FLOPs in a tile of m rows. At d = 128 it takes 25 clocks of an SM's share
// from memory (4.67 TB/s at 1.75 GHz) and 15 from L2; wgmma takes 8 clocks for each 64 rows at its peak, and
// exponentials take 4. So a tile of 64 rows is bound by memory or L2, and a tile of 128 rows, at 16 and 8 clocks, is
// memory-bound while its KV comes from memory. Portable tiles of 64 rows take 27 clocks: mma.sync reads K and V once
// for each 16 rows, wgmma once for 64. At d = 64 and 256 all but the exponentials is half and twice as much; at 256
// logits are computed twice, so that a tile of 64 rows takes 24 clocks of wgmma and 8 of exponentials, where memory
// takes 51 and L2 30.
//
// Schedule. Twelve warps, sixteen if K and V have 8 bits; one CTA on an SM.
// - The task scheduler (one warp) takes tasks from the queue and cuts their tokens into stages of 64, of four slices
//   of 16 tokens, a lane for each slice. It writes stage records for the other warps, up to 32 stages ahead. The first
//   7 stages of each task are written beforehand, once for all layers of a step (task_prologues.cu). The next task is
//   taken when the consumers reach the last stages of the present one.
// - Three loader warps fill a ring of slots (Traits::kSlots), of which some are in flight (kSlotsOnTheirWay). One
//   copies K by TMA, a slice at a time, or half a slice if pages are no multiple of 16 tokens; one copies V by TMA. The
//   latter and the third copy row by row (cp.async): Q, V of slices whose masks differ by token, V of short slices in a
//   task's last stage, slices that begin inside a TMA tile, and pages that are no multiple of 8 tokens. Behind other
//   short slices the consumers make V zero.
// - Two consumer warpgroups hold 64 rows each, with Q, O and weights in registers. In a tile of 64 rows both hold the
//   same rows and take stages in turns; at the end each gets half of the columns of both sums through the ring's last
//   two slots. In a tile of 128 rows each holds its own half, and passes stages that are masked for its rows without
//   waiting for them: KV that both halves share is read once, and KV of one half costs the other nothing. A stage's
//   logits are computed while the next stage is looked up, and its product with V beside the next stage's logits and
//   row maxima.
// - At d = 256 there are tiles of 64 rows alone: both warpgroups compute the logits of all stages, and each its half of
//   the columns of O. The product with V ends before the next logits begin, as the operands of both would not fit the
//   registers; the other warpgroup keeps the tensor cores busy.
// - If K and V have 8 bits, four widener warps make each slot's rows 16 bits wide, once for all rows of the tile. Then
//   the consumers read them (widener.cuh).
//
// Budget. Registers: 168 a thread at launch; then 208 for consumers (at d = 128 64 of O, 32 each of Q and logits, 16 of
// weights; at 256 64 of Q) and 88 for producers; nothing spills. Beside wideners there are fewer (Traits), and some
// words spill at d = 128 and 256. Shared memory: sizeof(SharedMemory<S>), 163, 223 and 217 of 227 KiB.
#pragma once

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/sm90/forward/cache_maps.hpp"
#include "exec/cuda/kernels/sm90/forward/consumer.cuh"
#include "exec/cuda/kernels/sm90/forward/first_task.cuh"
#include "exec/cuda/kernels/sm90/forward/loader.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/task_scheduler.cuh"
#include "exec/cuda/kernels/sm90/forward/widener.cuh"

namespace trunkline::cuda::sm90 {

template <class Element, class S>
__device__ __forceinline__ void widen_slices(const ForwardArgs& args, SharedMemory<S>& shared, int slice, int lane) {
  if (args.layer.kv_e5m2 != 0) {
    Widener<Element, S, true>(shared, slice, lane).run();
  } else {
    Widener<Element, S, false>(shared, slice, lane).run();
  }
}

/// Needs sizeof(SharedMemory<S>) of dynamic shared memory. \tparam kMerges whether the kernel merges partials; without
/// it, the code for merging, 1,300 instructions between the end of a task and the begin of the next, is left out
template <class Element, class S, bool kMerges>
__global__ void __launch_bounds__(S::kThreads, 1)
    forward_kernel(const __grid_constant__ ForwardArgs args, const __grid_constant__ CacheMaps maps) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<SharedMemory<S>*>(memory);
  if (threadIdx.x / 32 == 0) init_slot_barriers(shared, static_cast<int>(threadIdx.x));
  if (threadIdx.x / 32 == kConsumerWarps) init_batch_barriers(shared, static_cast<int>(threadIdx.x % 32));
  wait_for_kernel_before();
  const FirstTask first(args, maps.octets != 0);
  first.begin_copies(shared);
  if (threadIdx.x == kConsumerThreads) first.announce(shared);
  wait_for_copies();
  __syncthreads();
  let_next_kernel_come();
  // Broadcast, so that the compiler knows that it is uniform.
  const int warp = __shfl_sync(kWholeWarp, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < kConsumerWarps) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::kConsumerRegisters));
    const int group = warp / (kGroupThreads / 32);
    Consumer<Element, S, kMerges>(args, shared, group, static_cast<int>(threadIdx.x) % kGroupThreads).run();
  } else {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int producer = warp - kConsumerWarps;
    if constexpr (S::kWidens) {
      if (producer >= kProducerWarps) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kWidenerRegisters));
        return widen_slices<Element>(args, shared, producer - kProducerWarps, lane);
      }
    }
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kProducerRegisters));
    if (producer == 0) {
      TaskScheduler<S>(args, shared, maps.octets != 0, lane).run();
    } else {
      Loader<S>(args, maps, shared, producer - 1, lane).run();
    }
  }
}

}  // namespace trunkline::cuda::sm90
