// Merges the sums of warps to O and LSE: CTAs of a cluster exchange the units that each merges, and clusters of one
// head merge through memory. All sums have a fixed order, so that the same inputs give the same bits.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/cluster.cuh"
#include "exec/cuda/kernels/common/merge_row.cuh"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/sink.cuh"
#include "exec/cuda/kernels/sm90/single_query/args.hpp"
#include "exec/cuda/kernels/sm90/single_query/shared_memory.cuh"

namespace trunkline::cuda::single_query {

/// The un-normalised sums of one unit, and the state of its row.
struct Sums {
  float4 o;
  RowState state;

  __device__ __forceinline__ static Sums none() { return {{0, 0, 0, 0}, {-INFINITY, 0}}; }
  /// Returns the reference of the weights: the maximal logit, or 0 for a row without visible tokens.
  __device__ __forceinline__ float base() const { return state.max == -INFINITY ? 0 : state.max; }
  /// Raises the reference to a logit that is not below the maximum so far.
  __device__ __forceinline__ void raise(float largest) {
    const float factor = exp2_approx(state.max - (largest == -INFINITY ? 0 : largest));
    state = {largest, state.sum * factor};
    o.x *= factor;
    o.y *= factor;
    o.z *= factor;
    o.w *= factor;
  }
  /// Adds sums whose maximal logit is not above this one's. Sums without visible tokens change nothing, even if they
  /// are NaN.
  __device__ __forceinline__ void add(const float4& other, const RowState& of_other) {
    const float factor = exp2_approx(of_other.max - base());
    state.sum = fmaf(factor, of_other.sum, state.sum);
    if (factor == 0) return;
    o.x = fmaf(factor, other.x, o.x);
    o.y = fmaf(factor, other.y, o.y);
    o.z = fmaf(factor, other.z, o.z);
    o.w = fmaf(factor, other.w, o.w);
  }
};

class ClusterMerge {
 public:
  __device__ __forceinline__ ClusterMerge(const SingleQueryArgs& args, SharedMemory& shared, std::int32_t head)
      : args_(args),
        shared_(shared),
        head_(head),
        rank_(static_cast<int>(cluster_rank())),
        blocks_(static_cast<int>(cluster_blocks())),
        units_(args.layer.group_size * kRowUnits),
        share_((units_ + blocks_ - 1) / blocks_) {}

  /// Initialises the mbarrier for received bytes, by one thread before the cluster barrier.
  __device__ __forceinline__ void prepare() const {
    const int own = (units_ - rank_ + blocks_ - 1) / blocks_;
    const std::size_t from_each = own * sizeof(float4) + args_.layer.group_size * sizeof(RowState);
    init_for_bytes(shared_address(&shared_.all_received));
    expect_bytes(shared_address(&shared_.all_received), static_cast<std::uint32_t>(blocks_ * from_each));
  }

  /// Sends each unit to the CTA that merges it, and the states of all rows to all CTAs. Called by all threads, after
  /// the cluster barrier, when the sums and states of all warps are in shared memory.
  __device__ __forceinline__ void send() const {
    const auto thread = static_cast<int>(threadIdx.x);
    const std::uint32_t barrier = shared_address(&shared_.all_received);
#pragma unroll 1
    for (int unit = thread; unit < units_; unit += kThreads) {
      const Sums sums = of_warps(unit);
      const std::uint32_t place = shared_address(&shared_.received[rank_ * share_ + unit / blocks_]);
      const auto to = static_cast<std::uint32_t>(unit % blocks_);
      store_there(address_at(place, to), address_at(barrier, to), sums.o);
    }
    static_assert(kThreads >= kMaxBlocks * kRows);
    const int row = thread % kRows;
    if (thread / kRows >= blocks_ || row >= args_.layer.group_size) return;
    const RowState state = state_of_warps(row);
    const std::uint32_t place = shared_address(&shared_.received_states[rank_][row]);
    const auto to = static_cast<std::uint32_t>(thread / kRows);
    store_there(address_at(place, to), address_at(barrier, to), make_float2(state.max, state.sum));
  }

  /// Waits for the units of all CTAs, without which no CTA may exit, merges them, and writes O and LSE. Called by all
  /// threads. \param token the query's row in O \param cluster index of this cluster among the head's `clusters` with
  /// tokens
  template <class Element>
  __device__ __forceinline__ void finish(std::int32_t token, std::int32_t cluster, std::int32_t clusters) const {
    wait_for_bytes(shared_address(&shared_.all_received));
    if (clusters > 1 && !bring_sums(cluster, clusters)) return;
#pragma unroll 1
    for (int place = static_cast<int>(threadIdx.x); place < share_; place += kThreads) {
      const int unit = place * blocks_ + rank_;
      if (unit >= units_) return;
      write<Element>(token, unit, clusters > 1 ? of_clusters(unit, clusters) : of_blocks(place, unit / kRowUnits));
    }
  }

 private:
  __device__ __forceinline__ RowState state_of_warps(int row) const {
    RowState state{-INFINITY, 0};
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) state.max = fmaxf(state.max, shared_.states[warp][row].max);
    const float base = state.max == -INFINITY ? 0 : state.max;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      const RowState of_warp = shared_.states[warp][row];
      state.sum = fmaf(exp2_approx(of_warp.max - base), of_warp.sum, state.sum);
    }
    return state;
  }

  __device__ __forceinline__ Sums of_warps(int unit) const {
    const int row = unit / kRowUnits;
    const int column = unit % kRowUnits * kUnitColumns;
    Sums sums = Sums::none();
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sums.state.max = fmaxf(sums.state.max, shared_.states[warp][row].max);
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      const float* from = &shared_.sums(warp).rows[row][column];
      sums.add(*reinterpret_cast<const float4*>(from), shared_.states[warp][row]);
    }
    return sums;
  }

  // Merges a unit of all CTAs of the cluster. \param place index of the unit among this CTA's
  __device__ __forceinline__ Sums of_blocks(int place, int row) const {
    Sums sums = Sums::none();
#pragma unroll 4
    for (int block = 0; block < blocks_; ++block)
      sums.state.max = fmaxf(sums.state.max, shared_.received_states[block][row].max);
#pragma unroll 4
    for (int block = 0; block < blocks_; ++block)
      sums.add(shared_.received[block * share_ + place], shared_.received_states[block][row]);
    return sums;
  }

  __device__ __forceinline__ std::int64_t in_scratch(std::int32_t cluster) const {
    return std::int64_t{head_} * args_.clusters + cluster;
  }
  __device__ __forceinline__ float4* sums_of(std::int32_t cluster) const {
    return args_.scratch.sums + in_scratch(cluster) * units_;
  }
  __device__ __forceinline__ RowState* states_of(std::int32_t cluster) const {
    return args_.scratch.states + in_scratch(cluster) * args_.layer.group_size;
  }

  // Writes the cluster's sums of the CTA's units to memory, and counts the arrival. \return whether those of all
  // clusters of the head are there
  __device__ __forceinline__ bool bring_sums(std::int32_t cluster, std::int32_t clusters) const {
#pragma unroll 1
    for (int place = static_cast<int>(threadIdx.x); place < share_; place += kThreads) {
      const int unit = place * blocks_ + rank_;
      if (unit >= units_) break;
      const int row = unit / kRowUnits;
      const Sums sums = of_blocks(place, row);
      sums_of(cluster)[unit] = sums.o;
      states_of(cluster)[row] = sums.state;  // all CTAs with units of the row write the same
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      std::int32_t* const counter = args_.scratch.arrived + head_ * blocks_ + rank_;
      shared_.last = count_one(counter) + 1 == clusters ? 1 : 0;
      if (shared_.last != 0) *counter = 0;  // for the next launch
    }
    __syncthreads();
    return shared_.last != 0;
  }

  // Merges a unit of all clusters. Reads kAtOnce of them side by side to hide the latency of L2; past L1, as other SMs
  // wrote them a moment ago.
  __device__ __forceinline__ Sums of_clusters(int unit, std::int32_t clusters) const {
    constexpr int kAtOnce = 8;
    const int row = unit / kRowUnits;
    Sums sums = Sums::none();
#pragma unroll 1
    for (std::int32_t first = 0; first < clusters; first += kAtOnce) {
      float4 o[kAtOnce];
      float2 states[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int32_t cluster = min(first + i, clusters - 1);
        states[i] = __ldcg(reinterpret_cast<const float2*>(states_of(cluster) + row));
        o[i] = __ldcg(sums_of(cluster) + unit);
      }
      float largest = sums.state.max;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) largest = fmaxf(largest, states[i].x);
      sums.raise(largest);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < clusters) sums.add(o[i], {states[i].x, states[i].y});
      }
    }
    return sums;
  }

  template <class Element>
  __device__ __forceinline__ void write(std::int32_t token, int unit, const Sums& sums) const {
    const LayerArgs& layer = args_.layer;
    const std::int32_t q_head = head_ * layer.group_size + unit / kRowUnits;
    const int column = unit % kRowUnits * kUnitColumns;
    float lse = sums.state.sum == 0 ? -INFINITY : sums.state.max + log2f(sums.state.sum);
    // No token is visible: O = 0. A NaN stays NaN.
    float inverse = sums.state.sum == 0 ? 0 : layer.v_factor / sums.state.sum;
    if (layer.sinks != nullptr) {
      const SinkShare share = add_sink(sink_of(layer, q_head), lse);
      inverse *= share.tokens;
      lse = share.lse;
    }
    const float o[kUnitColumns] = {sums.o.x * inverse, sums.o.y * inverse, sums.o.z * inverse, sums.o.w * inverse};
    const std::int64_t at = token * layer.out_token + q_head * layer.out_head + column;
    if (layer.out_f32 != 0) {
      store_floats<kUnitColumns>(static_cast<float*>(layer.out) + at, o);
    } else {
      store_rounded<Element, kUnitColumns>(static_cast<std::uint16_t*>(layer.out) + at, o);
    }
    if (layer.lse == nullptr || column != 0) return;
    layer.lse[token * layer.lse_token + q_head * layer.lse_head] = lse * layer.lse_factor;
  }

  const SingleQueryArgs& args_;
  SharedMemory& shared_;
  std::int32_t head_;
  int rank_;
  int blocks_;
  int units_;  // units of the head's rows
  int share_;  // maximum of units that a CTA merges
};

}  // namespace trunkline::cuda::single_query
