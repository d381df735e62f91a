// The portable forward kernel (compute capability 8.0 and later): for each (item, KV head), with r = queries x g rows,
//
//   O[r, :] = sum over tokens t that row r sees of 2^(s[r, t] - L[r]) V[t, :],   s = scale log2(e) Q K^T,
//   L[r] = log2 of the sum of 2^s[r, t],
//
// with online softmax in fp32 and K and V read once for all r rows.
//
// Against the roofline: a token costs 4 d bytes and 4 d m FLOPs in a tile of m rows, so m FLOPs a byte. An H200 (4.67
// TB/s, 790 TFLOP/s) turns at 169, so every tile here (16, 32, 64) is bound by memory as long as its KV comes from
// there: at d = 128, 512 bytes are 26 clocks of an SM's share. mma.sync reaches about 60 % of the matrix rate, 13
// clocks a token at m = 64, and reading the fragments of K and V once for each 16 rows takes 16 (128 bytes a clock):
// tiles of 64 rows whose KV comes from L2 (14 clocks) are bound by these. They take 27: two consumer warps on each part
// of an SM do not hide each other's waits (softmax, fragments under way) wholly.
//
// Six warps. Two producers walk the spans and begin the copies (cp.async) of Q, K and V into a ring of slots, taking
// stages by turns, ahead of the consumers by the depth of the ring, across stages and tasks: page ids, masks, the next
// item and its Q arrive while earlier tokens are computed. Four consumer warps hold 16 rows each with their Q and O in
// registers. Where the tile has 16 or 32 rows, several hold the same rows and share the tokens of a stage; the epilogue
// adds their sums up in the ring's last two slots. Slots pass by mbarriers, without a barrier of the CTA. A warp skips
// tokens that none of its rows sees: masked tiles cost by what is visible, in steps of 16 rows x 16 tokens. Tasks with
// a NaN among their outputs are done again, query by query, once the CTA has no others (isolated_rows.cuh).
//
// The tile is a run-time number, so that one launch takes items of all tiles. Kernels of one tile (kTileRows) differ in
// registers alone. Of the persistent kernel, by -Xptxas -v:
//
//   d    registers (sm_80, sm_90a)           shared memory   CTAs on an SM of an H200, an A100
//   64   134, 128                            109 KiB         2, 1
//   128  168, 168: the most for two CTAs     105 KiB         2, 1
//   256  255, 255: the most for a thread     135 KiB         1, 1
//
// Nothing spills. Compute capability 8.6, 8.9 and 12.0 have 99 KiB of shared memory for a CTA: there the persistent
// kernel has a shorter ring, and else the same code.
#pragma once

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/sm80/forward/consumer.cuh"
#include "exec/cuda/kernels/sm80/forward/producer.cuh"
#include "exec/cuda/kernels/sm80/forward/shared_memory.cuh"

namespace trunkline::cuda::sm80 {

/// Dynamic shared memory: sizeof(SharedMemory<Size>).
/// \tparam Size Sizes of the head dimension \tparam kTileRows of all items; 0: items of all tiles
template <class Element, class Size, int kTileRows>
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
    Consumer<Element, Size, kTileRows>(args, shared, threadIdx.x).run();
  } else {
    Producer<Size>(args, shared, warp - kConsumerWarps, lane).run();
  }
}

}  // namespace trunkline::cuda::sm80
