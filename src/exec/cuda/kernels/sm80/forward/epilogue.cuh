// The epilogue of a task: warps with the same rows add up their sums through the ring's last two slots; all warps write
// O and LSE in whole rows.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/sink.cuh"
#include "exec/cuda/kernels/common/warp_rows.cuh"
#include "exec/cuda/kernels/sm80/forward/shared_memory.cuh"

namespace trunkline::cuda::sm80 {

inline constexpr int kConsumerBarrier = 1;

template <class Element, class Size>
class Epilogue {
  static constexpr int kDim = Size::kDim;
  static constexpr int kConsumers = 32 * kConsumerWarps;
  // Columns of the four warps' fp32 sums that fit two slots.
  static constexpr int kColumns = min(kDim, 2 * Size::kSlotBytes / (kConsumerWarps * kWarpRows * 4));
  static constexpr int kRowChunks = kColumns / 4;  // chunks of 16 bytes

 public:
  /// \param k_slot, v_slot the task's last K and V; all consumers have read them once they synchronise here
  __device__ __forceinline__ Epilogue(const ForwardArgs& args, SharedMemory<Size>& shared, const TaskInfo& task,
                                      int k_slot, int v_slot, unsigned thread)
      : args_(args),
        shared_(shared),
        task_(task),
        k_slot_(k_slot),
        v_slot_(v_slot),
        thread_(static_cast<int>(optimization_barrier(thread))),
        warp_(thread_ / 32),
        lane_(thread_ % 32) {}

  __device__ __forceinline__ void run(WarpRows<Element, kDim>& rows) {
    bool nan = false;
#pragma unroll
    for (int first = 0; first < kDim; first += kColumns) {
      // Waits until all warps have read the former content: in a short task, a warp may arrive here while another still
      // reads the states of the task before.
      named_barrier(kConsumerBarrier, kConsumers);
      if (first == 0) store_states(rows);
      store_sums(rows, first);
      named_barrier(kConsumerBarrier, kConsumers);
      nan |= write_rows(first);
    }
    if (named_barrier_any(kConsumerBarrier, kConsumers, nan) && thread_ == 0) {
      args_.nan_tasks[task_.number] = shared_.last_nan_task;
      shared_.last_nan_task = task_.number;
    }
  }

 private:
  __device__ __forceinline__ void store_states(WarpRows<Element, kDim>& rows) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows.sum[i] += __shfl_xor_sync(kWholeWarp, rows.sum[i], 1);
      rows.sum[i] += __shfl_xor_sync(kWholeWarp, rows.sum[i], 2);
      if (lane_ % 4 == 0) shared_.states[warp_][lane_ / 4 + 8 * i] = {rows.max[i], rows.sum[i]};
    }
  }

  // Swizzle: a row's 16-byte chunk c lies at c ^ 2 (row % 4), so that the rows that a half warp writes together use
  // different banks.
  __device__ __forceinline__ float* sums(int warp, int row, int chunk) const {
    std::byte* slot = shared_.slots[warp < 2 ? k_slot_ : v_slot_] + warp % 2 * (Size::kSlotBytes / 2);
    return reinterpret_cast<float*>(slot) + row * kColumns + 4 * (chunk ^ (row % 4 * 2));
  }

  __device__ __forceinline__ void store_sums(const WarpRows<Element, kDim>& rows, int first) const {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* o = rows.o[first / 8 + i] + 2 * half;
        float* to = sums(warp_, lane_ / 4 + 8 * half, 2 * i + lane_ % 4 / 2) + lane_ % 2 * 2;
        *reinterpret_cast<float2*>(to) = make_float2(o[0], o[1]);
      }
    }
  }

  __device__ __forceinline__ bool write_rows(int first) const {
    const int chunk = thread_ % kRowChunks;
    bool nan = false;
    for (int row = thread_ / kRowChunks; row < task_.rows; row += kConsumers / kRowChunks)
      nan |= write_chunk(row, first, chunk);
    return nan;
  }

  // Adds up a row's chunk of all warps that hold the row, each at its own reference: O = sum of 2^(max_i - max) O_i /
  // sum of 2^(max_i - max) sum_i. \return whether the chunk has a NaN
  __device__ __forceinline__ bool write_chunk(int row, int first, int chunk) const {
    const int row_in_warp = row % kWarpRows;
    float max = -INFINITY;
    for (int warp = row / kWarpRows; warp < kConsumerWarps; warp += 1 << task_.row_shift)
      max = fmaxf(max, shared_.states[warp][row_in_warp].max);
    const float base = max == -INFINITY ? 0 : max;
    float sum = 0;
    float4 o = make_float4(0, 0, 0, 0);
    for (int warp = row / kWarpRows; warp < kConsumerWarps; warp += 1 << task_.row_shift) {
      const RowState state = shared_.states[warp][row_in_warp];
      const float weight = exp2_approx(state.max - base);
      const float4 share = *reinterpret_cast<const float4*>(sums(warp, row_in_warp, chunk));
      sum += weight * state.sum;
      o.x += weight * share.x;
      o.y += weight * share.y;
      o.z += weight * share.z;
      o.w += weight * share.w;
    }
    // No token is visible: O = 0. A NaN stays NaN.
    const float inverse = sum == 0 ? 0 : 1 / sum;
    o = make_float4(o.x * inverse, o.y * inverse, o.z * inverse, o.w * inverse);
    const float v_factor = args_.layer.v_factor;
    o = make_float4(o.x * v_factor, o.y * v_factor, o.z * v_factor, o.w * v_factor);
    const float lse = sum == 0 ? -INFINITY : max + __log2f(sum);
    store_row(row, first + 4 * chunk, o, lse);
    return isnan((o.x + o.y) + (o.z + o.w));
  }

  __device__ __forceinline__ void store_row(int row, int column, float4 o, float lse) const {
    const LayerArgs& layer = args_.layer;
    const int query = task_.row_query[row];
    const int q_head = task_.head * layer.group_size + row - query * layer.group_size;
    const int slot = task_.output[query];
    if (slot >= 0) {
      const std::int64_t at = std::int64_t{slot} * layer.q_heads + q_head;
      *reinterpret_cast<float4*>(args_.partials.out + at * kDim + column) = o;
      if (column == 0) args_.partials.lse[at] = lse;
      return;
    }
    if (layer.sinks != nullptr) {
      const SinkShare share = add_sink(sink_of(layer, q_head), lse);
      o = make_float4(o.x * share.tokens, o.y * share.tokens, o.z * share.tokens, o.w * share.tokens);
      lse = share.lse;
    }
    const std::int64_t token = task_.token[query];
    const std::int64_t at = token * layer.out_token + q_head * layer.out_head + column;
    if (layer.out_f32 != 0) {
      *reinterpret_cast<float4*>(static_cast<float*>(layer.out) + at) = o;
    } else {
      const uint2 rounded = make_uint2(Element::round(o.x, o.y), Element::round(o.z, o.w));
      *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(layer.out) + at) = rounded;
    }
    if (column == 0 && layer.lse != nullptr)
      layer.lse[token * layer.lse_token + q_head * layer.lse_head] = lse * layer.lse_factor;
  }

  const ForwardArgs& args_;
  SharedMemory<Size>& shared_;
  const TaskInfo& task_;
  int k_slot_;
  int v_slot_;
  int thread_;
  int warp_;
  int lane_;
};

}  // namespace trunkline::cuda::sm80
