// The end of a task: warpgroups that took turns at the same rows add up their sums through the ring's last two slots;
// O and LSE are written from registers.
//
// A CTA comes here once or twice a launch, and its instructions come from L2 or memory: with both empty, a jump to
// where no instruction is waited 800 clocks, and ten of them, most between five kinds of stores, 8,000. So partials and
// all types of O take the same instructions, one after the other; where a lane's two rows go, and by which factor, is
// found side by side.
//
// A warp with a NaN among its outputs does its rows again, query by query (isolated_rows.cuh). Outputs are tested as
// pairs rounded to 16 bits, which are there for the stores: one addition a pair.
#pragma once

#include <cstdint>
#include <utility>

#include "exec/cuda/kernels/common/isolated_rows.cuh"
#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/sm90/forward/attend.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"

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
    // Each by its own branch: in one, 64 selects would take the place of 32 moves of one warpgroup.
    const bool first = group_ == 0;
    if (first) {
      leave<kHalf>(rows, v_slot);
    } else {
      leave<0>(rows, k_slot);
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) rows.o[i][j] = rows.o[kHalf + i][j];
      }
    }
    named_barrier(kConsumerBarrier, kConsumerThreads);
    add_other(rows, fragments(first ? k_slot : v_slot));
  }

  /// Where a row's columns and its LSE go.
  struct Place {
    enum Kind : std::int32_t { kNowhere, kFloats, kElements };

    std::byte* out;
    float* lse;  // null: nowhere
    float lse_factor;
    Kind kind;
  };
  struct Places {
    Place rows[2];
  };

  /// Of the lane's two rows, side by side, as each is a chain of reads; before the exchange, where warps wait.
  /// \param exchanged whether each warpgroup has half of the columns
  __device__ __forceinline__ Places find_places(const GroupRows<Element>& rows, bool exchanged) const {
    const int column = (exchanged ? kDim / 2 * group_ : 0) + thread_ % 4 * 2;
    return {{place_of(rows.row(), column), place_of(rows.row() + 8, column)}};
  }

  /// After the exchange, if any. \return whether a NaN was written by some lane of the warp
  __device__ __forceinline__ bool write(const GroupRows<Element>& rows, const Places& places, bool exchanged) const {
    float factors[2];
    std::uint32_t sums[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float sum = rows.sum[i];
      factors[i] = sum == 0 ? 0 : reciprocal_approx(sum);  // nothing seen: O = 0. A NaN stays one
      const float lse = sum == 0 ? -INFINITY : rows.max[i] + __log2f(sum);
      if (places.rows[i].lse != nullptr) *places.rows[i].lse = lse * places.rows[i].lse_factor;
    }
    store<0>(rows, places, factors, sums);
    if (!exchanged) store<kHalf>(rows, places, factors, sums);
    const bool nan = (places.rows[0].kind != Place::kNowhere && Element::has_nan(sums[0])) ||
                     (places.rows[1].kind != Place::kNowhere && Element::has_nan(sums[1]));
    return __any_sync(kWholeWarp, nan) != 0;
  }

  /// By a warp: writes its rows again, each from the tokens that its query sees alone.
  /// \param exchanged whether the warpgroup has half of the columns
  __device__ __forceinline__ void isolate_queries(bool exchanged) const {
    __syncwarp();  // what other lanes wrote comes before
    const int half = task_.halves == 2 ? group_ : 0;
    const int group_size = args_.layer.group_size;
    const int first_column = exchanged ? kDim / 2 * group_ : 0;
    const int end_column = exchanged ? first_column + kDim / 2 : kDim;
    // The same in all lanes, in registers that say so: else each shuffle in the loop is a call.
    const int begin = __shfl_sync(kWholeWarp, thread_ / 32 * 16, 0);
    const int end = __shfl_sync(kWholeWarp, min(begin + 16, task_.half_rows[half]), 0);
#pragma unroll 1
    for (int row = begin; row < end;) {
      const int query = __shfl_sync(kWholeWarp, task_.query_of(half, row), 0);
      const int next = (query - task_.first_query[half] + 1) * group_size;  // the next query's first row
      const int rows = min(next, end) - row;
      IsolatedRows<Element, kDim, 2>(args_, task_.number, query, task_.q_head_of(half, row, group_size), rows,
                                     thread_ % 32)
          .run(first_column, end_column);
      row += rows;
    }
  }

 private:
  // Of the lane in the first of a slot's blocks: the lanes of one lie side by side.
  __device__ __forceinline__ float4* fragments(int slot) const {
    return reinterpret_cast<float4*>(shared_.slots[slot]) + thread_;
  }

  // For the other warpgroup, whose columns are the half of the blocks from kFirst on.
  template <int kFirst>
  __device__ __forceinline__ void leave(const GroupRows<Element>& rows, int slot) const {
    float4* const to = fragments(slot);
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float* o = rows.o[kFirst + i];
      to[i * kGroupThreads] = make_float4(o[0], o[1], o[2], o[3]);
    }
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

  __device__ __forceinline__ Place place_of(int row, int column) const {
    const LayerArgs& layer = args_.layer;
    const int half = task_.halves == 2 ? group_ : 0;
    const int q_head = task_.q_head_of(half, row, layer.group_size);
    const ItemRow& item_row = task_.rows[task_.query_of(half, row)];
    const bool partial = item_row.output >= 0;
    const std::int64_t token = item_row.token;
    const std::int64_t at_partial = std::int64_t{item_row.output} * layer.q_heads + q_head;
    const std::int64_t at = token * layer.out_token + q_head * layer.out_head;
    const bool floats = partial || layer.out_f32 != 0;
    Place place;
    place.out = partial ? reinterpret_cast<std::byte*>(args_.partials.out) : static_cast<std::byte*>(layer.out);
    place.out += ((partial ? at_partial * kDim : at) + column) * (floats ? 4 : 2);
    place.kind = floats ? Place::kFloats : Place::kElements;
    if (row >= task_.half_rows[half]) place.kind = Place::kNowhere;
    place.lse = partial ? args_.partials.lse : layer.lse;
    const bool report = column == 0 && place.lse != nullptr && place.kind != Place::kNowhere;
    place.lse += partial ? at_partial : token * layer.lse_token + q_head * layer.lse_head;
    if (!report) place.lse = nullptr;
    place.lse_factor = partial ? 1 : layer.lse_factor;
    return place;
  }

  // Columns of half of the blocks.
  template <int kFirst>
  static __device__ __forceinline__ void store(const GroupRows<Element>& rows, const Places& places,
                                               const float (&factors)[2], std::uint32_t (&sums)[2]) {
    store_blocks<kFirst>(rows, places, factors, sums, std::make_integer_sequence<int, kHalf>());
  }
  template <int kFirst, int... kBlock>
  static __device__ __forceinline__ void store_blocks(const GroupRows<Element>& rows, const Places& places,
                                                      const float (&factors)[2], std::uint32_t (&sums)[2],
                                                      std::integer_sequence<int, kBlock...>) {
    (store_block<kFirst + kBlock>(rows.o[kFirst + kBlock], places.rows[0], factors[0], sums[0]), ...);
    (store_block<kFirst + kBlock>(rows.o[kFirst + kBlock] + 2, places.rows[1], factors[1], sums[1]), ...);
  }
  template <int kBlock>
  static __device__ __forceinline__ void store_block(const float* o, const Place& place, float factor,
                                                     std::uint32_t& sum) {
    // A row that sees nothing is 0, whatever others saw: a NaN in V may have come to its sums.
    const float low = factor == 0 ? 0 : o[0] * factor;
    const float high = factor == 0 ? 0 : o[1] * factor;
    const std::uint32_t rounded = Element::round(low, high);
    sum = Element::add(sum, rounded);
    // Either by its predicate: a branch would be a jump.
    asm volatile(
        "{ .reg .pred floats, elements; setp.eq.s32 floats, %1, %7; setp.eq.s32 elements, %1, %8; "
        "@floats st.global.v2.f32 [%0 + %5], {%2, %3}; @elements st.global.b32 [%0 + %6], %4; }" ::"l"(place.out),
        "r"(static_cast<std::int32_t>(place.kind)), "f"(low), "f"(high), "r"(rounded), "n"(8 * 4 * kBlock),
        "n"(8 * 2 * kBlock), "n"(int{Place::kFloats}), "n"(int{Place::kElements})
        : "memory");
  }

  const ForwardArgs& args_;
  SharedMemory& shared_;
  const TaskInfo& task_;
  int group_;
  int thread_;
};

}  // namespace trunkline::cuda::sm90
