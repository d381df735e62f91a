// Decode attention of one query (one request, one token), head dimension 128, without a plan's cuts: for each KV head,
// with g rows,
//
//   O[r, :] = sum over tokens t of 2^(s[r, t] - L[r]) V[t, :],   s = scale log2(e) Q K^T,
//   L[r] = log2 of the sum of 2^s[r, t],
//
// with online softmax in fp32.
//
// Against the roofline: a token costs 512 bytes and, by rows padded to 16, 8,192 FLOPs, 16 a byte, where an H200 turns
// at 169: bound by memory, and by latency where there are few tokens. A read that waits for another takes 0.7 us, what
// comes from cold memory, code and parameters among it, about as long, and a launch that waits for another 1 us and
// more. So there is one launch, three reads in turn (plan, page ids, K and V), and little code.
//
// A cluster of up to 8 CTAs has a KV head; where there are few heads, several clusters have one between them if it is
// long. Each CTA has an equal share of the tokens, to 16. Eight KV heads so take 64 SMs, which read all that the memory
// brings: three clusters of four CTAs a head, 96 SMs, took 1.10 of the time of 32,768 tokens. Twelve warps a CTA,
// without roles: each copies 16 tokens at a time to stages of its own (cp.async), one slice ahead, and multiplies them
// by mma.sync; no barrier but at the end. Then warps add up in shared memory, and CTAs store to each other an equal
// part of the sums (st.async, whose bytes a barrier counts), each merging some columns. Of several clusters of a head
// the last to come merges theirs, from memory.
//
// Registers: 168, of which Q 32, O 64, logits 8. Shared memory: sizeof(SharedMemory), 207 KiB, one CTA on an SM.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/cluster.cuh"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/warp_rows.cuh"
#include "exec/cuda/kernels/sm90/single_query/args.hpp"
#include "exec/cuda/kernels/sm90/single_query/merge.cuh"
#include "exec/cuda/kernels/sm90/single_query/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/single_query/slice_copies.cuh"

namespace trunkline::cuda::single_query {

/// What is asked of the query, read side by side.
struct QueryFacts {
  std::int32_t present;  // 0: there is none
  std::int64_t ids_begin;
  ItemRow row;

  __device__ __forceinline__ explicit QueryFacts(const SingleQueryArgs& args)
      : present(load_ahead(&args.counts->item_queries)), ids_begin(load_ahead(args.ids_begin)) {
    load_ahead(row, args.row);
  }
};

/// A warp's share of the sequence's slices: CTAs have equal parts, their warps take turns.
__device__ __forceinline__ WarpShare share_of(std::int32_t limit, std::int32_t part, std::int32_t parts, int warp) {
  const std::int32_t slices = (limit + kSliceTokens - 1) / kSliceTokens;
  const std::int32_t each = slices / parts;
  const std::int32_t more = slices - each * parts;
  const std::int32_t begin = part * each + min(part, more);
  return {begin + warp, begin + each + (part < more ? 1 : 0), limit};
}

/// By all threads, a chunk each: the query's rows of a KV head, zero behind the last.
__device__ __forceinline__ void begin_queries(const LayerArgs& layer, SharedMemory& shared, std::int32_t token,
                                              std::int32_t head) {
  constexpr int kChunks = kRowBytes / 16;
  static_assert(kThreads >= kRows * kChunks);
  const int row = static_cast<int>(threadIdx.x) / kChunks;
  const int chunk = static_cast<int>(threadIdx.x) % kChunks;
  const bool live = row < layer.group_size;
  const std::int64_t at = token * layer.q_token + (head * layer.group_size + row) * layer.q_head;
  const auto* from = static_cast<const std::byte*>(layer.q) + 2 * (live ? at : 0) + 16 * chunk;
  if (row < kRows) copy_async_or_zero(shared_address(shared.queries[row]) + ((chunk ^ (row % 8)) << 4), from, live);
  commit_copies();
}

/// Logits of tokens behind the sequence's end.
__device__ __forceinline__ void mask_end(float (&logits)[kSliceTokens / 8][4], std::int32_t tokens, int lane) {
#pragma unroll
  for (int i = 0; i < kSliceTokens / 8; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (8 * i + lane % 4 * 2 + j % 2 >= tokens) logits[i][j] = -INFINITY;
    }
  }
}

/// Leaves a warp's sums and states where its CTA adds up.
template <class Rows>
__device__ __forceinline__ void leave_sums(const Rows& rows, SharedMemory& shared, std::int32_t live) {
  const int lane = rows.lane();
  float sums[2] = {rows.sum[0], rows.sum[1]};
#pragma unroll
  for (float& sum : sums) {
    sum += __shfl_xor_sync(kWholeWarp, sum, 1);
    sum += __shfl_xor_sync(kWholeWarp, sum, 2);
  }
  WarpSums& to = shared.sums(rows.warp());
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + 8 * half;
    if (row >= live) continue;
    if (lane % 4 == 0) shared.states[rows.warp()][row] = {rows.max[half], sums[half]};
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      *reinterpret_cast<float2*>(&to.rows[row][8 * i + lane % 4 * 2]) =
          make_float2(rows.o[i][2 * half], rows.o[i][2 * half + 1]);
    }
  }
}

/// Parameters come from cold memory 64 bytes at a time: one of each line is read here, side by side, where who needs
/// some of several lines would wait for one after the other.
__device__ __forceinline__ void touch_parameters(const SingleQueryArgs& args) {
  const LayerArgs& layer = args.layer;
  asm volatile("" ::"l"(args.counts), "r"(args.places_on), "l"(layer.lse), "l"(layer.k_strides.head),
               "l"(layer.v_strides.page), "l"(layer.lse_token), "r"(layer.group_size), "r"(args.clusters));
}

/// \tparam kWhole whether pages are a multiple of kSliceTokens
/// Grid: clusters of the first KV head, of the second, ... Dynamic shared memory: sizeof(SharedMemory).
template <class Element, bool kWhole>
__global__ void __launch_bounds__(kThreads, 1) forward_kernel(const __grid_constant__ SingleQueryArgs args) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<SharedMemory*>(memory);
  touch_parameters(args);
  const auto blocks = static_cast<std::int32_t>(cluster_blocks());
  const std::int32_t number = static_cast<std::int32_t>(blockIdx.x) / blocks;
  const std::int32_t head = number / args.clusters;
  const std::int32_t cluster = number - head * args.clusters;
  const ClusterMerge merge(args, shared, head);
  if (threadIdx.x == 0) merge.prepare();
  cluster_arrive();
  let_next_kernel_come();
  wait_for_kernel_before();
  const QueryFacts query(args);
  WarpRows<Element, kDim> rows(threadIdx.x, fabsf(args.layer.scale_log2));
  const std::int32_t limit = query.row.limit;
  // Clusters of one head merge through memory, which takes longer than some tokens more.
  const std::int32_t clusters = limit <= kTokensAlone * blocks ? 1 : args.clusters;
  if (query.present == 0 || cluster >= clusters) return cluster_wait();

  const std::int32_t part = cluster * blocks + static_cast<std::int32_t>(cluster_rank());
  const WarpShare share = share_of(limit, part, clusters * blocks, rows.warp());
  Stage* const stages = shared.stages[rows.warp()];
  SliceCopies<kWhole> copies(args, stages, query.ids_begin, head, share, rows.lane());
  begin_queries(args.layer, shared, query.row.token, head);
  rows.clear();
  int stage = 0;
  // kAhead times before the first slice: its copies are begun by the same code as later ones.
#pragma unroll 1
  for (std::int32_t slice = share.first - kAhead * kWarps; slice < share.end || slice < share.first; slice += kWarps) {
    copies.begin_next();
    if (slice < share.first) {
      if (slice + kWarps < share.first) continue;
      wait_for_all_but<kAhead>();
      __syncthreads();
      rows.load_queries(shared_address(shared.queries), 0, args.layer.scale_log2 < 0);
      continue;
    }
    wait_for_all_but<kAhead>();
    __syncwarp();
    float logits[kSliceTokens / 8][4];
    std::uint32_t weights[kSliceTokens / 16][4];
    rows.template multiply_keys<kSliceTokens>(shared_address(stages[stage].keys), 0, logits);
    const std::int32_t tokens = limit - slice * kSliceTokens;
    if (tokens < kSliceTokens) mask_end(logits, tokens, rows.lane());
    rows.template exp_scores<kSliceTokens>(logits, weights);
    rows.template multiply_values<kSliceTokens>(shared_address(stages[stage].values), 0, weights);
    __syncwarp();  // the stage is free
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
  leave_sums(rows, shared, args.layer.group_size);
  __syncthreads();
  cluster_wait();
  merge.send();
  merge.template finish<Element>(query.row.token, cluster, clusters);
}

}  // namespace trunkline::cuda::single_query
