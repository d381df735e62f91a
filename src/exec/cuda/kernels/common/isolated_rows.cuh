// Attention of one query's rows over exactly the tokens that are visible to it, for tasks whose output has a NaN.
//
//   O[r, :] = sum over tokens t visible to the query of 2^(s[r, t] - L[r]) V[t, :],   s = scale log2(e) Q K^T
//
// The tiled kernels give a masked token a weight of zero and add zero times its V. If that V is NaN or infinite, say
// because another request's activations overflowed, the sum becomes NaN. This code never reads masked tokens, so that
// its result depends on no other request. A tile with a NaN is recomputed by it, query by query; any other tile pays
// only for a test of its outputs.
//
// One warp has up to 16 rows (query heads of one KV head) in the fragments of mma.sync and reads K and V directly from
// global memory, because the ring in shared memory holds the next tasks by then. Each lane finds the address of one of
// 32 tokens; 16 of them are read at a time, for 64 columns of O. The logits are computed anew for each 64 columns, so
// that the registers suffice at every head size. The sum over head dimensions and the columns of O may be taken in any
// order, so that a lane's elements are neighbours and are read in words of 16 bytes, without a transpose through shared
// memory.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/head_scale.cuh"
#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/page_offsets.cuh"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/sink.cuh"
#include "exec/cuda/kernels/common/soft_cap.cuh"
#include "exec/cuda/kernels/common/widen.cuh"

namespace trunkline::cuda {

/// \tparam kKvBytes bytes of an element of K and V \tparam kVaries whether layers may vary (LayerArgs::varies)
/// \tparam kChunks number of chunks of 32 head dimensions in flight: as many as the kernel's registers allow
template <class Element, int kDim, int kKvBytes, bool kVaries, int kChunks>
class IsolatedRows {
  static constexpr int kTokens = 16;   // tokens at a time; with 32 the Hopper kernel's registers spill
  static constexpr int kColumns = 64;  // columns of O at a time
  static_assert(kDim % kColumns == 0);

 public:
  static constexpr int kMaxRows = 16;

  /// \param task number in the queue \param query index in the task's item
  /// \param q_head of the first row \param rows at most kMaxRows, of query heads side by side
  __device__ __forceinline__ IsolatedRows(const ForwardArgs& args, std::int32_t task, int query, std::int32_t q_head,
                                          int rows, int lane)
      : args_(args), query_(query), q_head_(q_head), rows_(rows), lane_(lane) {
    const std::int32_t kv_heads = optimization_barrier_int(args.layer.kv_heads);
    const std::int32_t place = task / kv_heads;
    head_ = task - place * kv_heads;
    const TaskHeader& header = args.step.tasks[place];
    spans_ = {uniform(header.spans.begin), uniform(header.spans.end)};
    row_ = args.step.rows[header.rows.begin + query];
  }

  /// Writes columns [first_column, end_column) of the rows, multiples of 32, and their LSE with column 0.
  __device__ __forceinline__ void run(int first_column, int end_column) {
#pragma unroll 1
    for (int column = first_column / kColumns * kColumns; column < end_column; column += kColumns) {
      attend(column);
      write(column, first_column, end_column);
    }
  }

 private:
  // Keeps the compiler from preparing divisions by a parameter at the kernel's start: the main loop has no registers
  // for it.
  static __device__ __forceinline__ std::int32_t optimization_barrier_int(std::int32_t value) {
    return static_cast<std::int32_t>(optimization_barrier(static_cast<unsigned>(value)));
  }

  // Broadcasts a value, so that the compiler knows that it is uniform: else each shuffle in a loop that it bounds
  // becomes a call.
  static __device__ __forceinline__ std::int32_t uniform(std::int32_t value) {
    return __shfl_sync(kWholeWarp, value, 0);
  }

  __device__ __forceinline__ bool mask_shows(std::int64_t mask) const {
    return (args_.plan.masks[2 * mask + query_ / 64] >> (query_ % 64) & 1) != 0;
  }

  __device__ __forceinline__ void attend(int column) {
    clear();
    const std::int32_t limit = uniform(row_.limit);
    const PageOffsets page_offsets(optimization_barrier_int(args_.pages.page_size));
#pragma unroll 1
    for (std::int32_t index = spans_.begin; index < spans_.end; ++index) {
      ResolvedSpan span = args_.step.spans[index];
      span.begin = uniform(span.begin);
      span.end = uniform(span.end);
      span.mask = uniform(span.mask);
      const bool by_token = span.mask >= 0 && span.mask_stride != 0;
      if (span.mask >= 0 && !by_token && !__any_sync(kWholeWarp, mask_shows(span.mask))) continue;
      const std::int32_t end = min(span.end, limit);  // positions from the limit on come after the query
#pragma unroll 1
      for (std::int32_t first = span.begin; first < end; first += 32) {
        const std::int32_t position = first + lane_;
        const bool visible =
            position < end &&
            (!by_token || mask_shows(span.mask + std::int64_t{span.mask_stride} * (position - span.begin)));
        std::int64_t key = 0;
        std::int64_t value = 0;
        if (visible) {
          const LayerArgs& layer = args_.layer;
          const std::int64_t page = page_id(args_.pages, span.ids_begin + page_offsets.page_of(position));
          const std::int32_t offset = page_offsets.offset_of(position);
          key = page * layer.k_strides.page + offset * layer.k_strides.token + head_ * layer.k_strides.head;
          value = page * layer.v_strides.page + offset * layer.v_strides.token + head_ * layer.v_strides.head;
        }
        const unsigned visible_tokens = __ballot_sync(kWholeWarp, visible);
#pragma unroll 1
        for (int token = 0; token < 32 && visible_tokens >> token != 0; token += kTokens)
          attend_tokens(visible_tokens, key, value, token, column);
      }
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& block : o_) block[0] = block[1] = block[2] = block[3] = 0;
    max_[0] = max_[1] = -INFINITY;
    sum_[0] = sum_[1] = 0;
  }

  // Loads eight elements of Q.
  static __device__ __forceinline__ uint4 load_queries(const void* base, std::int64_t element, bool present) {
    if (!present) return {0, 0, 0, 0};
    return *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(base) + element);
  }
  // Loads eight elements of K or V.
  __device__ __forceinline__ uint4 load_kv(const void* base, std::int64_t element, bool present) const {
    if constexpr (kKvBytes == 2) {
      return load_queries(base, element, present);
    } else {
      if (!present) return {0, 0, 0, 0};
      const auto words = *reinterpret_cast<const uint2*>(static_cast<const std::byte*>(base) + element);
      return widen<Element>(words, args_.layer.kv_e5m2 != 0);
    }
  }

  /// Attends to kTokens tokens from lane `first` on. \param key offset of the lane's token in K, in elements
  /// \param value the same in V
  __device__ __forceinline__ void attend_tokens(unsigned visible, std::int64_t key, std::int64_t value, int first,
                                                int column) {
    float logits[kTokens / 8][4];
    multiply_keys(visible, key, first, logits);
    std::uint32_t weights[4];
    exp_logits(visible >> first, logits, weights);
    multiply_values(visible, value, first, column, weights);
  }

  // A lane has eight neighbouring dimensions of each 32, for its rows and for its token.
  __device__ __forceinline__ void multiply_keys(unsigned visible, std::int64_t key, int first,
                                                float (&logits)[kTokens / 8][4]) const {
    const LayerArgs& layer = args_.layer;
    const int row = lane_ / 4;
    const std::int64_t q = row_.token * layer.q_token + (q_head_ + row) * layer.q_head;
#pragma unroll
    for (auto& tile : logits) tile[0] = tile[1] = tile[2] = tile[3] = 0;
#pragma unroll kChunks
    for (int dim = lane_ % 4 * 8; dim < kDim; dim += 32) {
      const uint4 low = load_queries(layer.q, q + dim, row < rows_);
      const uint4 high = load_queries(layer.q, q + 8 * layer.q_head + dim, row + 8 < rows_);
      const std::uint32_t q_low[4] = {low.x, high.x, low.y, high.y};
      const std::uint32_t q_high[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
      for (int tile = 0; tile < kTokens / 8; ++tile) {
        const int token = first + 8 * tile + lane_ / 4;
        const std::int64_t at = __shfl_sync(kWholeWarp, static_cast<long long>(key), token);
        const uint4 keys = load_kv(layer.k, at + dim, (visible >> token & 1) != 0);
        Element::multiply_add(logits[tile], q_low, keys.x, keys.y);
        Element::multiply_add(logits[tile], q_high, keys.z, keys.w);
      }
    }
  }

  __device__ __forceinline__ void exp_logits(unsigned visible, float (&logits)[kTokens / 8][4],
                                             std::uint32_t (&weights)[4]) {
    float scale = args_.layer.scale_log2;
    const float of_head = kKvBytes == 1 ? logit_scale_of(args_.layer, head_) : 1;
    if (kVaries && has_soft_cap(args_.layer)) {
      cap_logits(logits, args_.layer.cap_factor * of_head);
    } else {
      scale *= of_head;
    }
    float largest[2] = {max_[0], max_[1]};
#pragma unroll
    for (int tile = 0; tile < kTokens / 8; ++tile) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int token = 8 * tile + lane_ % 4 * 2 + j % 2;
        float& logit = logits[tile][j];
        logit = (visible >> token & 1) != 0 ? logit * scale : -INFINITY;
        largest[j / 2] = fmaxf(largest[j / 2], logit);
      }
    }
    float base[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      largest[row] = fmaxf(largest[row], __shfl_xor_sync(kWholeWarp, largest[row], 1));
      largest[row] = fmaxf(largest[row], __shfl_xor_sync(kWholeWarp, largest[row], 2));
      const float factor = largest[row] == max_[row] ? 1 : exp2_approx(max_[row] - largest[row]);
      max_[row] = largest[row];
      sum_[row] *= factor;
      base[row] = largest[row] == -INFINITY ? 0 : largest[row];
#pragma unroll
      for (auto& block : o_) {
        block[2 * row] *= factor;
        block[2 * row + 1] *= factor;
      }
    }
#pragma unroll
    for (int tile = 0; tile < kTokens / 8; ++tile) {
      float* weight = logits[tile];
#pragma unroll
      for (int j = 0; j < 4; ++j) weight[j] = exp2_approx(weight[j] - base[j / 2]);
      sum_[0] += weight[0] + weight[1];
      sum_[1] += weight[2] + weight[3];
      weights[2 * tile] = Element::round(weight[0], weight[1]);
      weights[2 * tile + 1] = Element::round(weight[2], weight[3]);
    }
  }

  // Column n of block i is dimension 8 n + i: a lane has eight neighbouring dimensions of each of its tokens.
  __device__ __forceinline__ void multiply_values(unsigned visible, std::int64_t value, int first, int column,
                                                  const std::uint32_t (&weights)[4]) {
    std::uint32_t values[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = first + lane_ % 4 * 2 + i % 2 + i / 2 * 8;
      const std::int64_t at = __shfl_sync(kWholeWarp, static_cast<long long>(value), token);
      const uint4 words = load_kv(args_.layer.v, at + column + lane_ / 4 * 8, (visible >> token & 1) != 0);
      values[i][0] = words.x;
      values[i][1] = words.y;
      values[i][2] = words.z;
      values[i][3] = words.w;
    }
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      const unsigned halves = i % 2 == 0 ? 0x5410 : 0x7632;
      Element::multiply_add(o_[i], weights, __byte_perm(values[0][i / 2], values[1][i / 2], halves),
                            __byte_perm(values[2][i / 2], values[3][i / 2], halves));
    }
  }

  // Writes those of the columns from `column` on that are in [first_column, end_column).
  __device__ __forceinline__ void write(int column, int first_column, int end_column) {
    const LayerArgs& layer = args_.layer;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = sum_[half];
      sum += __shfl_xor_sync(kWholeWarp, sum, 1);
      sum += __shfl_xor_sync(kWholeWarp, sum, 2);
      const int row = lane_ / 4 + 8 * half;
      if (row >= rows_) continue;
      const float of_head = kKvBytes == 1 ? scale_of(layer.v_scale, head_) : 1;
      // No token is visible: O = 0. A NaN stays NaN.
      float factor = sum == 0 ? 0 : (kVaries ? layer.v_factor * of_head : 1) / sum;
      float lse = sum == 0 ? -INFINITY : max_[half] + __log2f(sum);
      const std::int32_t q_head = q_head_ + row;
      const bool partial = row_.output >= 0;
      if (kVaries && !partial && layer.sinks != nullptr) {
        const SinkShare share = add_sink(sink_of(layer, q_head), lse);
        factor *= share.tokens;
        lse = share.lse;
      }
      const std::int64_t at_partial = std::int64_t{row_.output} * layer.q_heads + q_head;
      const std::int64_t at = partial ? at_partial * kDim : row_.token * layer.out_token + q_head * layer.out_head;
      void* const out = partial ? args_.partials.out : layer.out;
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const int first = column + lane_ % 4 * 16 + 8 * side;
        if (first < first_column || first >= end_column) continue;
        const std::int64_t to = at + first;
#pragma unroll
        for (int i = 0; i < kColumns / 8; i += 2) {
          const float low = o_[i][2 * half + side] * factor;
          const float high = o_[i + 1][2 * half + side] * factor;
          if (partial || layer.out_f32 != 0) {
            *reinterpret_cast<float2*>(static_cast<float*>(out) + to + i) = make_float2(low, high);
          } else {
            *reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(out) + to + i) = Element::round(low, high);
          }
        }
      }
      if (first_column != 0 || column != 0 || lane_ % 4 != 0) continue;
      if (partial) {
        args_.partials.lse[at_partial] = lse;
      } else if (layer.lse != nullptr) {
        layer.lse[std::int64_t{row_.token} * layer.lse_token + q_head * layer.lse_head] = lse * layer.lse_factor;
      }
    }
  }

  const ForwardArgs& args_;
  Range spans_;
  ItemRow row_;
  int query_;
  std::int32_t head_;
  std::int32_t q_head_;
  int rows_;
  int lane_;
  float o_[kColumns / 8][4];
  float max_[2];
  float sum_[2];  // partial sum of this lane
};

}  // namespace trunkline::cuda
