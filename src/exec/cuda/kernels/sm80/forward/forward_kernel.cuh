// The portable forward kernel (compute capability 8.0 and later).
//
// Problem. For each (item, KV head), with r = queries x g rows,
//
//   O[r, :] = sum over tokens t visible to row r of 2^(s[r, t] - L[r]) V[t, :],   s = scale log2(e) Q K^T,
//   L[r] = log2 of the sum of 2^s[r, t],
//
// with online softmax in fp32. K and V are read once for all r rows.
//
// Bound. A token costs 4 d bytes and 4 d m FLOPs in a tile of m rows, so m FLOPs a byte. The ridge of an H200 (4.67
// TB/s, 790 TFLOP/s) is at 169 FLOPs a byte: every tile here (16, 32, 64) is memory-bound while its KV comes from
// memory. At d = 128, the 512 bytes of a token take 26 clocks of an SM's share.
//
// Schedule. Six warps.
// - Two producer warps iterate over the spans and issue the copies (cp.async) of Q, K and V into a ring of slots. They
//   take stages in turns, and run ahead of the consumers by the depth of the ring, across stages and tasks: page ids,
//   masks, the next item and its Q arrive while earlier tokens are computed.
// - Four consumer warps hold 16 rows each, with Q and O in registers. In a tile of 16 or 32 rows several warps hold the
//   same rows and share the tokens of a stage; the epilogue adds up their sums in the ring's last two slots.
// Slots are handed over by mbarriers, without a barrier of the CTA. A warp skips tokens that are masked for all of its
// rows: a masked tile costs what is visible, in steps of 16 rows x 16 tokens. Tasks with a NaN among their outputs are
// recomputed query by query once the CTA has no other tasks (isolated_rows.cuh).
//
// Budget. The tile is a run-time argument, so that one launch runs items of all tiles. The kernel takes, by
// -Xptxas -v:
//
//   d    registers (sm_80, sm_90a)           shared memory   CTAs on an SM of an H200, an A100
//   64   134, 128                            109 KiB         2, 1
//   128  168, 168: maximum for two CTAs      105 KiB         2, 1
//   256  255, 255: maximum of a thread       135 KiB         1, 1
//
// Nothing spills. Compute capability 8.6, 8.9 and 12.0 have 99 KiB of shared memory for a CTA: there the kernel has a
// shorter ring, and otherwise the same code.
//
// Limit. For KV from L2, 14 clocks a token, tiles of 64 rows are bound by the SM: mma.sync reaches about 60 % of the
// matrix rate, 13 clocks a token at m = 64, and reading the fragments of K and V once for each 16 rows takes 16 (128
// bytes a clock). These tiles take 27 clocks: two consumer warps on each part of an SM do not fully hide each other's
// waits (softmax, fragments in flight).
#pragma once

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/sm80/forward/consumer.cuh"
#include "exec/cuda/kernels/sm80/forward/producer.cuh"
#include "exec/cuda/kernels/sm80/forward/shared_memory.cuh"

namespace trunkline::cuda::sm80 {

/// Needs sizeof(SharedMemory<Size>) of dynamic shared memory.
/// \tparam Size Sizes of the head dimension
template <class Element, class Size>
__global__ void __launch_bounds__(kThreads, target_ctas(Size::kDim))
    forward_kernel(const __grid_constant__ ForwardArgs args) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<SharedMemory<Size>*>(memory);
  if (threadIdx.x == 0) init_barriers(shared);
  __syncthreads();
  let_next_kernel_come();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (warp < kConsumerWarps) {
    Consumer<Element, Size>(args, shared, threadIdx.x).run();
  } else {
    Producer<Size>(args, shared, warp - kConsumerWarps, lane).run();
  }
}

}  // namespace trunkline::cuda::sm80
