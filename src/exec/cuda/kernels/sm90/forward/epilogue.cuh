// The epilogue of a task: warpgroups with the same rows add up their sums through the ring's last two slots; O and LSE
// are written from registers.
//
// A CTA runs this once or twice a launch, with cold instructions, from L2 or memory: with both cold, a jump to code
// that is not cached took 800 clocks, and ten jumps, most of them between five kinds of stores, 8,000. So partials and
// all types of O run the same straight-line instructions, and the destinations and factors of a lane's two rows are
// computed side by side.
//
// A warp with a NaN among its outputs recomputes its rows query by query (isolated_rows.cuh). The test uses the pairs
// rounded to 16 bits that the stores need anyway: one addition a pair.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "exec/cuda/kernels/common/head_scale.cuh"
#include "exec/cuda/kernels/common/isolated_rows.cuh"
#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/sink.cuh"
#include "exec/cuda/kernels/sm90/forward/attend.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"

namespace trunkline::cuda::sm90 {

inline constexpr int kConsumerBarrier = 1;

template <class Element, class S>
class Epilogue {
  static constexpr int kDim = S::kDim;
  static constexpr int kHalf = kDim / 8 / 2;  // half of a row's blocks of 8 columns
  static constexpr float kMinFactor = std::numeric_limits<float>::min();
  using Rows = GroupRows<Element, S>;

 public:
  /// \param thread index in the warpgroup
  __device__ __forceinline__ Epilogue(const ForwardArgs& args, SharedMemory<S>& shared, const TaskInfo& task, int group,
                                      int thread)
      : args_(args), shared_(shared), task_(task), group_(group), thread_(thread) {}

  /// Adds up the sums of weights of the four lanes of each row.
  __device__ __forceinline__ void add_up_sums(Rows& rows) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows.sum[i] += __shfl_xor_sync(kWholeWarp, rows.sum[i], 1);
      rows.sum[i] += __shfl_xor_sync(kWholeWarp, rows.sum[i], 2);
    }
  }

  /// Adds up O and states of rows that both warpgroups hold: each warpgroup gets half of the columns, in its first
  /// blocks. \param k_slot, v_slot the task's last K and V
  __device__ __forceinline__ void exchange(Rows& rows, int k_slot, int v_slot) const {
    // Waits until all warps have read the slots, and the states of the task before.
    named_barrier(kConsumerBarrier, kConsumerThreads);
    if (thread_ % 4 == 0) {
      shared_.states[group_][rows.row()] = {rows.max[0], rows.sum[0]};
      shared_.states[group_][rows.row() + 8] = {rows.max[1], rows.sum[1]};
    }
    // The first warpgroup keeps the first half of the columns and gives the second half away; the second does the
    // reverse. Each has its own branch: common code would need 64 selects instead of 32 moves of one warpgroup.
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

  /// The destination of a row's columns and LSE.
  struct Place {
    enum Kind : std::int32_t { kNowhere, kFloats, kElements };

    std::byte* out;
    float* lse;  // null: not written
    float lse_factor;
    float sink;  // -inf: none
    Kind kind;
  };
  struct Places {
    Place rows[2];
    float v_scale;  // the head's
  };

  /// Finds the destinations of the lane's two rows side by side, as each is a chain of reads. Called before the
  /// exchange, so that its barriers hide the latency. \param exchanged whether each warpgroup has half of the columns
  __device__ __forceinline__ Places find_places(const Rows& rows, bool exchanged) const {
    const int column = (exchanged ? kDim / 2 * group_ : 0) + thread_ % 4 * 2;
    return {{place_of(rows.row(), column), place_of(rows.row() + 8, column)},
            S::kWidens ? scale_of(args_.layer.v_scale, task_.head) : 1};
  }

  /// Writes O and LSE, after the exchange if there is one. \return whether some lane of the warp wrote a NaN
  __device__ __forceinline__ bool write(const Rows& rows, const Places& places, bool exchanged) const {
    float factors[2];
    std::uint32_t sums[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float sum = rows.sum[i];
      factors[i] = sum == 0 ? 0 : reciprocal_approx(sum);  // no token is visible: O = 0. A NaN stays NaN
      float lse = sum == 0 ? -INFINITY : rows.max[i] + __log2f(sum);
      if constexpr (S::kVaries) {
        const SinkShare share = add_sink(places.rows[i].sink, lse);
        // A heavy sink makes the factor 0, which store_block() takes for a row without visible tokens.
        const float factor = factors[i] * (share.tokens * args_.layer.v_factor * places.v_scale);
        factors[i] = sum != 0 && factor == 0 ? kMinFactor : factor;
        lse = share.lse;
      }
      if (places.rows[i].lse != nullptr) *places.rows[i].lse = lse * places.rows[i].lse_factor;
    }
    store<0>(rows, places, factors, sums);
    if constexpr (!S::kSplitsColumns) {
      if (!exchanged) store<kHalf>(rows, places, factors, sums);
    }
    const bool nan = (places.rows[0].kind != Place::kNowhere && Element::has_nan(sums[0])) ||
                     (places.rows[1].kind != Place::kNowhere && Element::has_nan(sums[1]));
    return __any_sync(kWholeWarp, nan) != 0;
  }

  /// Recomputes the rows of a warp, each from only the tokens visible to its query. Called by a whole warp.
  /// \param exchanged whether the warpgroup has half of the columns
  __device__ __forceinline__ void isolate_queries(bool exchanged) const {
    __syncwarp();  // orders these writes after those of other lanes
    const int half = task_.halves == 2 ? group_ : 0;
    const int group_size = args_.layer.group_size;
    const int first_column = exchanged ? kDim / 2 * group_ : 0;
    const int end_column = exchanged ? first_column + kDim / 2 : kDim;
    // Broadcast, so that the compiler knows that they are uniform: else each shuffle in the loop is a call.
    const int begin = __shfl_sync(kWholeWarp, thread_ / 32 * 16, 0);
    const int end = __shfl_sync(kWholeWarp, min(begin + 16, task_.half_rows[half]), 0);
#pragma unroll 1
    for (int row = begin; row < end;) {
      const int query = __shfl_sync(kWholeWarp, task_.query_of(half, row), 0);
      const int next = (query - task_.first_query[half] + 1) * group_size;  // the next query's first row
      const int rows = min(next, end) - row;
      IsolatedRows<Element, kDim, S::kKvBytes, S::kVaries, 2>(
          args_, task_.number, query, task_.q_head_of(half, row, group_size), rows, thread_ % 32)
          .run(first_column, end_column);
      row += rows;
    }
  }

 private:
  // Returns the lane's address in a slot's first block; the lanes of a block are neighbours.
  __device__ __forceinline__ float4* fragments(int slot) const {
    return reinterpret_cast<float4*>(shared_.slots[slot]) + thread_;
  }

  // Stores the half of the blocks from kFirst on for the other warpgroup.
  template <int kFirst>
  __device__ __forceinline__ void leave(const Rows& rows, int slot) const {
    float4* const to = fragments(slot);
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float* o = rows.o[kFirst + i];
      to[i * kGroupThreads] = make_float4(o[0], o[1], o[2], o[3]);
    }
  }

  // Adds the sums of the lane's counterpart in the other warpgroup, which has the same rows and columns.
  __device__ __forceinline__ void add_other(Rows& rows, const float4* from) const {
    float own[2];
    float other[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const RowState theirs = shared_.states[1 - group_][rows.row() + 8 * i];
      const float max = fmaxf(rows.max[i], theirs.max);
      const float base = max == -INFINITY ? 0 : max;
      own[i] = exp2_approx(rows.max[i] - base);
      other[i] = exp2_approx(theirs.max - base);
      // Not fused, so that both warpgroups get the same bits.
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
    const bool beside_sink = S::kVaries && !partial && place.kind != Place::kNowhere;
    place.sink = beside_sink ? sink_of(layer, q_head) : -INFINITY;
    return place;
  }

  // Stores the columns of half of the blocks.
  template <int kFirst>
  static __device__ __forceinline__ void store(const Rows& rows, const Places& places, const float (&factors)[2],
                                               std::uint32_t (&sums)[2]) {
    store_blocks<kFirst>(rows, places, factors, sums, std::make_integer_sequence<int, kHalf>());
  }
  template <int kFirst, int... kBlock>
  static __device__ __forceinline__ void store_blocks(const Rows& rows, const Places& places, const float (&factors)[2],
                                                      std::uint32_t (&sums)[2], std::integer_sequence<int, kBlock...>) {
    (store_block<kFirst + kBlock>(rows.o[kFirst + kBlock], places.rows[0], factors[0], sums[0]), ...);
    (store_block<kFirst + kBlock>(rows.o[kFirst + kBlock] + 2, places.rows[1], factors[1], sums[1]), ...);
  }
  template <int kBlock>
  static __device__ __forceinline__ void store_block(const float* o, const Place& place, float factor,
                                                     std::uint32_t& sum) {
    // A row without visible tokens is 0: its sums may have a NaN of a V that is visible to other rows.
    const float low = factor == 0 ? 0 : o[0] * factor;
    const float high = factor == 0 ? 0 : o[1] * factor;
    const std::uint32_t rounded = Element::round(low, high);
    sum = Element::add(sum, rounded);
    // Both stores are predicated: a branch would be a jump.
    asm volatile(
        "{ .reg .pred floats, elements; setp.eq.s32 floats, %1, %7; setp.eq.s32 elements, %1, %8; "
        "@floats st.global.v2.f32 [%0 + %5], {%2, %3}; @elements st.global.b32 [%0 + %6], %4; }" ::"l"(place.out),
        "r"(static_cast<std::int32_t>(place.kind)), "f"(low), "f"(high), "r"(rounded), "n"(8 * 4 * kBlock),
        "n"(8 * 2 * kBlock), "n"(int{Place::kFloats}), "n"(int{Place::kElements})
        : "memory");
  }

  const ForwardArgs& args_;
  SharedMemory<S>& shared_;
  const TaskInfo& task_;
  int group_;
  int thread_;
};

}  // namespace trunkline::cuda::sm90
