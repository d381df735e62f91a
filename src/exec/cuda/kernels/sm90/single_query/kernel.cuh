// Single-query decode attention: one request, one query token, head dimension 128, without the plan's cuts.
//
// Problem. For each KV head, with g rows,
//
//   O[r, :] = sum over tokens t of 2^(s[r, t] - L[r]) V[t, :],   s = scale log2(e) Q K^T,
//   L[r] = log2 of the sum of 2^s[r, t],
//
// with online softmax in fp32.
//
// Bound. A token costs 512 bytes and, with rows padded to 16, 8,192 FLOPs: 16 FLOPs a byte, where the ridge of an H200
// is at 169. The kernel is memory-bound, and for short requests latency-bound: a read that depends on another takes 0.7
// us, a first access to cold memory, code and parameters included, about as long, and a launch that waits for another 1
// us and more. So there is one launch, with three dependent reads (plan, page ids, K and V) and little code.
//
// Schedule. A cluster of up to 8 CTAs computes a KV head; if there are few heads and the request is long, several
// clusters share a head. Each CTA has an equal share of the tokens, to 16. Eight KV heads thus take 64 SMs, which reach
// the memory's bandwidth: three clusters of four CTAs a head, 96 SMs, took 1.10 of the time of 32,768 tokens. The
// twelve warps of a CTA have no roles: each copies slices of 16 tokens to its own stages (cp.async), one slice ahead,
// and multiplies them by mma.sync, without a barrier before the end. Then the warps add up in shared memory; each CTA
// sends every other CTA of the cluster an equal part of its sums (st.async, whose bytes an mbarrier counts), and merges
// some columns. Of several clusters of a head, the last to arrive merges the sums of all, from memory.
//
// Budget. Registers: 168, of which Q takes 32, O 64 and logits 8. Shared memory: sizeof(SharedMemory), 207 KiB, one CTA
// on an SM.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/cluster.cuh"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/soft_cap.cuh"
#include "exec/cuda/kernels/common/warp_rows.cuh"
#include "exec/cuda/kernels/sm90/single_query/args.hpp"
#include "exec/cuda/kernels/sm90/single_query/merge.cuh"
#include "exec/cuda/kernels/sm90/single_query/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/single_query/slice_copies.cuh"

namespace trunkline::cuda::single_query {

/// The members of the plan and the step that describe the query, read side by side.
struct QueryFacts {
  std::int32_t present;  // 0: there is no query
  std::int64_t ids_begin;
  ItemRow row;

  __device__ __forceinline__ explicit QueryFacts(const SingleQueryArgs& args)
      : present(load_ahead(&args.counts->item_queries)), ids_begin(load_ahead(args.ids_begin)) {
    load_ahead(row, args.row);
  }
};

/// Returns a warp's share of the sequence's slices: CTAs have equal parts, whose slices their warps take in turns.
__device__ __forceinline__ WarpShare share_of(std::int32_t limit, std::int32_t part, std::int32_t parts, int warp) {
  const std::int32_t slices = (limit + kSliceTokens - 1) / kSliceTokens;
  const std::int32_t each = slices / parts;
  const std::int32_t more = slices - each * parts;
  const std::int32_t begin = part * each + min(part, more);
  return {begin + warp, begin + each + (part < more ? 1 : 0), limit};
}

/// Issues the copies of the query's rows of a KV head, by all threads, a chunk each; rows behind the last are zero.
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

/// Masks the logits of tokens behind the end of the sequence.
__device__ __forceinline__ void mask_end(float (&logits)[kSliceTokens / 8][4], std::int32_t tokens, int lane) {
#pragma unroll
  for (int i = 0; i < kSliceTokens / 8; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (8 * i + lane % 4 * 2 + j % 2 >= tokens) logits[i][j] = -INFINITY;
    }
  }
}

/// Stores a warp's sums and states in shared memory, where the CTA adds them up.
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

/// The grid has the clusters of the first KV head, of the second, ... Needs sizeof(SharedMemory) of dynamic shared
/// memory. \tparam kWhole whether pages are a multiple of kSliceTokens
template <class Element, bool kWhole>
__global__ void __launch_bounds__(kThreads, 1) forward_kernel(const __grid_constant__ SingleQueryArgs args) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<SharedMemory*>(memory);
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
  // Clusters of one head merge through memory, which takes longer than the tokens that one cluster can compute
  // meanwhile.
  const std::int32_t clusters = limit <= kTokensAlone * blocks ? 1 : args.clusters;
  if (query.present == 0 || cluster >= clusters) return cluster_wait();

  const std::int32_t part = cluster * blocks + static_cast<std::int32_t>(cluster_rank());
  const WarpShare share = share_of(limit, part, clusters * blocks, rows.warp());
  Stage* const stages = shared.stages[rows.warp()];
  SliceCopies<kWhole> copies(args, stages, query.ids_begin, head, share, rows.lane());
  begin_queries(args.layer, shared, query.row.token, head);
  rows.clear();
  int stage = 0;
  // The loop starts kAhead slices early, so that the same code issues the first copies and the later ones.
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
    if (has_soft_cap(args.layer)) cap_logits(logits, args.layer.cap_factor);
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
