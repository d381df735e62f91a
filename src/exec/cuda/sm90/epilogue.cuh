// The end of a task: warpgroups that took turns at the same rows add up their sums through the ring's last two slots;
// O and LSE are written from registers.
#pragma once

#include <cstdint>

#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/sm90/attend.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"

namespace trunkline::cuda::sm90 {

inline constexpr int kConsumerBarrier = 1;

template <class Element>
class Epilogue {
  static constexpr int kBlocks = kDim / 8;  // of a row's columns
  static constexpr int kHalf = kBlocks / 2;

 public:
  /// \param thread of the warpgroup
  __device__ __forceinline__ Epilogue(const ForwardArgs& args, SharedMemory& shared, const TaskInfo& task, int group,
                                      int thread)
      : args_(args), shared_(shared), task_(task), group_(group), thread_(thread) {}

  /// Rows that are this warpgroup's alone.
  __device__ __forceinline__ void write_own(GroupRows<Element>& rows) const {
    add_up_sums(rows);
    const RowState states[2] = {{rows.max[0], rows.sum[0]}, {rows.max[1], rows.sum[1]}};
    write<0, kBlocks>(rows, states);
  }

  /// Rows that both have: each writes half of the columns. \param slots of the task's last K and V
  __device__ __forceinline__ void write_shared(GroupRows<Element>& rows, int k_slot, int v_slot) const {
    add_up_sums(rows);
    // All are done with the slots, and with the states of the task before.
    named_barrier(kConsumerBarrier, kConsumerThreads);
    if (thread_ % 4 == 0) {
      shared_.states[group_][rows.row()] = {rows.max[0], rows.sum[0]};
      shared_.states[group_][rows.row() + 8] = {rows.max[1], rows.sum[1]};
    }
    if (group_ == 0) {
      leave<kHalf>(rows, v_slot);
    } else {
      leave<0>(rows, k_slot);
    }
    named_barrier(kConsumerBarrier, kConsumerThreads);
    if (group_ == 0) {
      take<0>(rows, k_slot);
    } else {
      take<kHalf>(rows, v_slot);
    }
  }

 private:
  static __device__ __forceinline__ void add_up_sums(GroupRows<Element>& rows) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows.sum[i] += __shfl_xor_sync(kWholeWarp, rows.sum[i], 1);
      rows.sum[i] += __shfl_xor_sync(kWholeWarp, rows.sum[i], 2);
    }
  }

  __device__ __forceinline__ float4* fragments(int slot, int block) const {
    return reinterpret_cast<float4*>(shared_.slots[slot]) + block * kGroupThreads + thread_;
  }

  // For the other warpgroup, whose columns are the half of the blocks from kFirst on.
  template <int kFirst>
  __device__ __forceinline__ void leave(const GroupRows<Element>& rows, int slot) const {
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float* o = rows.o[kFirst + i];
      *fragments(slot, i) = make_float4(o[0], o[1], o[2], o[3]);
    }
  }

  // Adds to its columns, the half of the blocks from kFirst on, what the other warpgroup left: each lane finds its
  // counterpart's, which has the same rows and columns.
  template <int kFirst>
  __device__ __forceinline__ void take(GroupRows<Element>& rows, int slot) const {
    RowState states[2];
    float own[2];
    float other[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const RowState theirs = shared_.states[1 - group_][rows.row() + 8 * i];
      const float max = fmaxf(rows.max[i], theirs.max);
      const float base = max == -INFINITY ? 0 : max;
      own[i] = exp2_approx(rows.max[i] - base);
      other[i] = exp2_approx(theirs.max - base);
      states[i] = {max, group_ == 0 ? own[i] * rows.sum[i] + other[i] * theirs.sum
                                    : other[i] * theirs.sum + own[i] * rows.sum[i]};
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      float* o = rows.o[kFirst + i];
      const float4 theirs = *fragments(slot, i);
      o[0] = own[0] * o[0] + other[0] * theirs.x;
      o[1] = own[0] * o[1] + other[0] * theirs.y;
      o[2] = own[1] * o[2] + other[1] * theirs.z;
      o[3] = own[1] * o[3] + other[1] * theirs.w;
    }
    write<kFirst, kHalf>(rows, states);
  }

  template <int kFirst, int kCount>
  __device__ __forceinline__ void write(const GroupRows<Element>& rows, const RowState (&states)[2]) const {
    const LayerArgs& layer = args_.layer;
    const int half = task_.halves == 2 ? group_ : 0;
    const int column = 8 * kFirst + thread_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = rows.row() + 8 * i;
      if (row >= task_.half_rows[half]) continue;
      const int query = task_.row_query[kGroupRows * half + row];
      const int q_head = task_.head * layer.group_size + row - (query - task_.first_query[half]) * layer.group_size;
      const float inverse = states[i].sum == 0 ? 0 : 1 / states[i].sum;  // nothing seen: O = 0. A NaN stays one
      const float lse = states[i].sum == 0 ? -INFINITY : states[i].max + __log2f(states[i].sum);
      const bool tells = kFirst == 0 && thread_ % 4 == 0;
      const int slot = task_.rows[query].output;
      if (slot >= 0) {
        const std::int64_t at = std::int64_t{slot} * layer.q_heads + q_head;
        store<kFirst, kCount>(rows, i, inverse, args_.partials.out + at * kDim + column);
        if (tells) args_.partials.lse[at] = lse;
        continue;
      }
      const std::int64_t token = task_.token_of(query);
      const std::int64_t at = token * layer.out_token + q_head * layer.out_head + column;
      if (layer.out_f32 != 0) {
        store<kFirst, kCount>(rows, i, inverse, static_cast<float*>(layer.out) + at);
      } else {
        store<kFirst, kCount>(rows, i, inverse, static_cast<std::uint16_t*>(layer.out) + at);
      }
      if (tells && layer.lse != nullptr)
        layer.lse[token * layer.lse_token + q_head * layer.lse_head] = lse * layer.lse_factor;
    }
  }

  // A row that sees nothing is 0, whatever others saw: a NaN in V may have come to its sums.
  static __device__ __forceinline__ float scaled(float value, float factor) {
    return factor == 0 ? 0 : value * factor;
  }

  template <int kFirst, int kCount>
  static __device__ __forceinline__ void store(const GroupRows<Element>& rows, int row, float factor, float* to) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float* o = rows.o[kFirst + i] + 2 * row;
      *reinterpret_cast<float2*>(to + 8 * i) = make_float2(scaled(o[0], factor), scaled(o[1], factor));
    }
  }

  template <int kFirst, int kCount>
  static __device__ __forceinline__ void store(const GroupRows<Element>& rows, int row, float factor,
                                               std::uint16_t* to) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float* o = rows.o[kFirst + i] + 2 * row;
      *reinterpret_cast<std::uint32_t*>(to + 8 * i) = Element::round(scaled(o[0], factor), scaled(o[1], factor));
    }
  }

  const ForwardArgs& args_;
  SharedMemory& shared_;
  const TaskInfo& task_;
  int group_;
  int thread_;
};

}  // namespace trunkline::cuda::sm90
