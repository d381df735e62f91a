// The end of a task: warpgroups that took turns at the same rows add up their sums through the ring's last two slots;
// O and LSE are written from registers.
//
// A CTA comes here once or twice a launch, and its instructions come from memory: a jump to where no instruction is
// waits 800 clocks, and one that had five kinds of stores in turn waited 8,000. So both rows of a lane, both halves of
// the columns, both warpgroups and all types of O take the same instructions, one after the other.
#pragma once

#include <cstdint>
#include <utility>

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

  /// Of all rows of the lane: what its four lanes have summed.
  __device__ __forceinline__ void add_up_sums(GroupRows<Element>& rows) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows.sum[i] += __shfl_xor_sync(kWholeWarp, rows.sum[i], 1);
      rows.sum[i] += __shfl_xor_sync(kWholeWarp, rows.sum[i], 2);
    }
  }

  /// Of rows that both warpgroups have: adds up the sums of both, of half of the columns each, which are then those of
  /// the first blocks. \param slots of the task's last K and V
  __device__ __forceinline__ void exchange(GroupRows<Element>& rows, int k_slot, int v_slot) const {
    // All are done with the slots, and with the states of the task before.
    named_barrier(kConsumerBarrier, kConsumerThreads);
    if (thread_ % 4 == 0) {
      shared_.states[group_][rows.row()] = {rows.max[0], rows.sum[0]};
      shared_.states[group_][rows.row() + 8] = {rows.max[1], rows.sum[1]};
    }
    // The first warpgroup keeps the first half of the columns and leaves the second, the other the other way around.
    const bool first = group_ == 0;
    float4* const to = fragments(first ? v_slot : k_slot);
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      float left[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        left[j] = first ? rows.o[kHalf + i][j] : rows.o[i][j];
        rows.o[i][j] = first ? rows.o[i][j] : rows.o[kHalf + i][j];
      }
      to[i * kGroupThreads] = make_float4(left[0], left[1], left[2], left[3]);
    }
    named_barrier(kConsumerBarrier, kConsumerThreads);
    add_other(rows, fragments(first ? k_slot : v_slot));
  }

  /// \param exchanged whether each warpgroup has half of the columns
  __device__ __forceinline__ void write(GroupRows<Element>& rows, bool exchanged) const {
    const int column = (exchanged ? kDim / 2 * group_ : 0) + thread_ % 4 * 2;
#pragma unroll 1
    for (int row = rows.row();;) {
      const Destination to = destination_of(row, rows.max[0], rows.sum[0], column);
      if (column == 0) store_lse(to);
      store<0>(rows, to);
      if (!exchanged) store<kHalf>(rows, to);
      if (row != rows.row()) break;
      row += 8;
      // The second of the lane's rows takes the place of the first.
      rows.max[0] = rows.max[1];
      rows.sum[0] = rows.sum[1];
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        rows.o[i][0] = rows.o[i][2];
        rows.o[i][1] = rows.o[i][3];
      }
    }
  }

 private:
  // Where a row's columns and its LSE go.
  struct Destination {
    enum Kind : std::int32_t { kNowhere, kFloats, kElements };

    std::byte* out;
    float* lse;  // null: nowhere
    float lse_value;
    float factor;  // of the sums
    Kind kind;
  };

  // Of the lane in the first of a slot's blocks: the lanes of one lie side by side.
  __device__ __forceinline__ float4* fragments(int slot) const {
    return reinterpret_cast<float4*>(shared_.slots[slot]) + thread_;
  }

  // Each lane finds its counterpart's, which has the same rows and columns.
  __device__ __forceinline__ void add_other(GroupRows<Element>& rows, const float4* from) const {
    float own[2];
    float other[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const RowState theirs = shared_.states[1 - group_][rows.row() + 8 * i];
      const float max = fmaxf(rows.max[i], theirs.max);
      const float base = max == -INFINITY ? 0 : max;
      own[i] = exp2_approx(rows.max[i] - base);
      other[i] = exp2_approx(theirs.max - base);
      // Not as one operation, so that both come to the same.
      rows.sum[i] = __fadd_rn(__fmul_rn(own[i], rows.sum[i]), __fmul_rn(other[i], theirs.sum));
      rows.max[i] = max;
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      float* o = rows.o[i];
      const float4 theirs = from[i * kGroupThreads];
      o[0] = own[0] * o[0] + other[0] * theirs.x;
      o[1] = own[0] * o[1] + other[0] * theirs.y;
      o[2] = own[1] * o[2] + other[1] * theirs.z;
      o[3] = own[1] * o[3] + other[1] * theirs.w;
    }
  }

  __device__ __forceinline__ Destination destination_of(int row, float max, float sum, int column) const {
    const LayerArgs& layer = args_.layer;
    const int half = task_.halves == 2 ? group_ : 0;
    const int query = task_.row_query[kGroupRows * half + row];
    const int q_head = task_.head * layer.group_size + row - (query - task_.first_query[half]) * layer.group_size;
    const ItemRow& item_row = task_.rows[query];
    const bool partial = item_row.output >= 0;
    const std::int64_t token = item_row.token;
    const std::int64_t at_partial = std::int64_t{item_row.output} * layer.q_heads + q_head;
    const std::int64_t at = token * layer.out_token + q_head * layer.out_head;
    const bool floats = partial || layer.out_f32 != 0;
    Destination to;
    to.out = partial ? reinterpret_cast<std::byte*>(args_.partials.out) : static_cast<std::byte*>(layer.out);
    to.out += ((partial ? at_partial * kDim : at) + column) * (floats ? 4 : 2);
    to.kind = floats ? Destination::kFloats : Destination::kElements;
    if (row >= task_.half_rows[half]) to.kind = Destination::kNowhere;
    to.lse = partial ? args_.partials.lse : layer.lse;
    const bool told = to.lse != nullptr && to.kind != Destination::kNowhere;
    to.lse += partial ? at_partial : token * layer.lse_token + q_head * layer.lse_head;
    if (!told) to.lse = nullptr;
    to.factor = sum == 0 ? 0 : reciprocal_approx(sum);  // nothing seen: O = 0. A NaN stays one
    const float lse = sum == 0 ? -INFINITY : max + __log2f(sum);
    to.lse_value = partial ? lse : lse * layer.lse_factor;
    return to;
  }

  static __device__ __forceinline__ void store_lse(const Destination& to) {
    if (to.lse != nullptr) *to.lse = to.lse_value;
  }

  // The first row's columns of half of the blocks.
  template <int kFirst>
  static __device__ __forceinline__ void store(const GroupRows<Element>& rows, const Destination& to) {
    store_blocks<kFirst>(rows, to, std::make_integer_sequence<int, kHalf>());
  }
  template <int kFirst, int... kBlock>
  static __device__ __forceinline__ void store_blocks(const GroupRows<Element>& rows, const Destination& to,
                                                      std::integer_sequence<int, kBlock...>) {
    (store_block<kFirst + kBlock>(rows.o[kFirst + kBlock], to), ...);
  }
  template <int kBlock>
  static __device__ __forceinline__ void store_block(const float (&o)[4], const Destination& to) {
    // A row that sees nothing is 0, whatever others saw: a NaN in V may have come to its sums.
    const float low = to.factor == 0 ? 0 : o[0] * to.factor;
    const float high = to.factor == 0 ? 0 : o[1] * to.factor;
    // Either by its predicate: a branch would be a jump.
    asm volatile(
        "{ .reg .pred floats, elements; setp.eq.s32 floats, %1, 1; setp.eq.s32 elements, %1, 2; "
        "@floats st.global.v2.f32 [%0 + %5], {%2, %3}; @elements st.global.b32 [%0 + %6], %4; }" ::"l"(to.out),
        "r"(static_cast<std::int32_t>(to.kind)), "f"(low), "f"(high), "r"(Element::round(low, high)),
        "n"(8 * 4 * kBlock), "n"(8 * 2 * kBlock)
        : "memory");
  }

  const ForwardArgs& args_;
  SharedMemory& shared_;
  const TaskInfo& task_;
  int group_;
  int thread_;
};

}  // namespace trunkline::cuda::sm90
