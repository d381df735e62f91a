// Matrix products and online softmax of one warpgroup: 64 rows against 64 tokens at a time.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/soft_cap.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/wgmma.cuh"

namespace trunkline::cuda::sm90 {

/// A warpgroup's rows: fragments of Q, of weights and of O, and the state of the online softmax. A lane has rows lane /
/// 4 and lane / 4 + 8 of its warp's 16, and columns 2 (lane % 4) + {0, 1} of each 8. Loops use indices: arrays in a
/// range-based loop stay in memory (nvcc 13.0).
template <class Element, class S>
class GroupRows {
  // O is rescaled only when the maximal logit has grown by 8, in base 2: weights are then at most 256, far below fp16's
  // 65504, and rescaling is rare.
  static constexpr float kLag = 8;

 public:
  float o[S::kColumns / 8][4];
  float max[2];  // reference of the sums: at most kLag below the maximal logit so far
  float sum[2];  // partial sum of this lane

  /// \param slots address of the ring in shared memory \param thread index in the warpgroup \param scale of the logits,
  /// at least 0
  __device__ __forceinline__ GroupRows(std::uint32_t slots, int thread, float scale)
      : slots_(slots), thread_(thread), scale_(scale) {}

  /// Sets the scale of the task's logits, where heads differ.
  __device__ __forceinline__ void set_scale(float scale) { scale_ = scale; }

  __device__ __forceinline__ int lane() const { return thread_ % 32; }
  /// Makes the lane opaque to the compiler: values that depend on it are computed anew after this, and take no
  /// registers before.
  __device__ __forceinline__ void block_optimization_of_lane() {
    thread_ = static_cast<int>(optimization_barrier(static_cast<unsigned>(thread_)));
  }
  __device__ __forceinline__ int thread() const { return thread_; }
  /// Returns the lane's first row in the warpgroup; the second is row() + 8.
  __device__ __forceinline__ int row() const { return thread_ / 32 * 16 + lane() / 4; }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < S::kColumns / 8; ++i) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;
    max[0] = max[1] = -INFINITY;
    sum[0] = sum[1] = 0;
  }

  /// Sets fragments of Q, logits and weights to zero, only to end their live ranges: else the compiler keeps them in
  /// registers until here, as the next task's first products name the present logits as operands.
  __device__ __forceinline__ void clear_fragments() {
#pragma unroll
    for (int i = 0; i < S::kDim / 16; ++i) q_[i][0] = q_[i][1] = q_[i][2] = q_[i][3] = 0;
#pragma unroll
    for (int i = 0; i < kStageTokens / 16; ++i) weights_[i][0] = weights_[i][1] = weights_[i][2] = weights_[i][3] = 0;
    clear_logits();
  }

  /// Sets logits to zero, to end their live ranges before the next products.
  __device__ __forceinline__ void clear_logits() {
#pragma unroll
    for (int i = 0; i < kStageTokens / 8; ++i) s_[i][0] = s_[i][1] = s_[i][2] = s_[i][3] = 0;
  }

  /// Sets the queries of the lane's two rows. \param queries indices in their half, less than 64
  __device__ __forceinline__ void set_queries(int2 queries) {
    queries_ = static_cast<std::uint32_t>(queries.x | queries.y << 8);
  }
  /// Returns the word of StageRecord::visible with the bits of both queries: they share a word at every group size.
  __device__ __forceinline__ int word_of_queries() const {
    return static_cast<int>(queries_ >> 5 & 1);
  }

  /// Loads the rows of a slot as fragments of Q; `flip` negates them.
  __device__ __forceinline__ void load_queries(std::uint32_t slot, bool flip) {
    const std::uint32_t sign = flip ? 0x80008000u : 0;
#pragma unroll
    for (int step = 0; step < S::kDim / 16; ++step) {
      load_matrices(q_[step], slot + chunk_offset<S>(thread_ / 32 * 16 + lane() % 16, 2 * step + lane() / 16));
#pragma unroll
      for (int i = 0; i < 4; ++i) q_[step][i] ^= sign;
    }
  }

  /// Returns the low word of the wgmma descriptor of a slot with K; word_of_values() does for V. The word is broadcast
  /// from one lane, so that the compiler makes descriptors in uniform registers: in other registers each product waited
  /// for two moves, and tiles bound by arithmetic took 5 % longer.
  __device__ __forceinline__ std::uint32_t word_of_keys(int slot) const {
    return __shfl_sync(kWholeWarp, slot_word<S>(slots_, slot), 0);
  }
  /// \param group the warpgroup
  __device__ __forceinline__ std::uint32_t word_of_values(int slot, int group) const {
    return __shfl_sync(kWholeWarp, (slot_word<S>(slots_, slot) + columns_of_group<S>(group)) | kPanelStride, 0);
  }

  /// Issues the products for unscaled logits against a stage's K.
  __device__ __forceinline__ void begin_logits(std::uint32_t keys) {
    fence_operand(q_);
    fence_operand(s_);
    products_begin();
#pragma unroll
    for (int step = 0; step < S::kDim / 16; ++step)
      Products<Element>::multiply_keys(s_, q_[step], keys + step_of_keys(step), kHighWord<S>, step > 0);
  }

  /// Issues the products that add a stage's V, multiplied by the weights, to O.
  __device__ __forceinline__ void begin_values(std::uint32_t values) {
    fence_operand(weights_);
    fence_operand(o);
    products_begin();
#pragma unroll
    for (int step = 0; step < kStageTokens / 16; ++step)
      Products<Element>::multiply_values(o, weights_[step], values + step_of_values<S>(step), kHighWord<S>);
  }

  /// Waits for the logits; kProducts later groups may still be in flight.
  template <int kProducts>
  __device__ __forceinline__ void wait_for_logits() {
    wait_for_products<kProducts>(s_);
  }
  /// Waits for all products.
  __device__ __forceinline__ void wait_for_values() {
    wait_for_products<0>(o);
  }

  /// Caps the logits. \param factor as cap_logit() has it
  __device__ __forceinline__ void cap(float factor) {
    cap_logits(s_, factor);
  }

  /// Masks slices: sets their logits to -inf, by a select, so that NaN does not spread.
  /// \param visible for each slice, the mask word with the rows' queries
  __device__ __forceinline__ void mask_slices(uint4 visible) {
    const std::uint32_t words[kSlices] = {visible.x, visible.y, visible.z, visible.w};
    const uint2 bits = bits_of_queries();
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      const bool first = (words[slice] & bits.x) != 0;
      const bool second = (words[slice] & bits.y) != 0;
#pragma unroll
      for (int i = 2 * slice; i < 2 * slice + 2; ++i) {
        s_[i][0] = first ? s_[i][0] : -INFINITY;
        s_[i][1] = first ? s_[i][1] : -INFINITY;
        s_[i][2] = second ? s_[i][2] : -INFINITY;
        s_[i][3] = second ? s_[i][3] : -INFINITY;
      }
    }
  }

  /// Masks the tokens of a slice that has a mask word for each token.
  /// \param visible for each token of the stage, the mask word with the rows' queries
  template <int kSlice>
  __device__ __forceinline__ void mask_tokens(const std::uint32_t* visible) {
    const uint2 bits = bits_of_queries();
#pragma unroll
    for (int i = 2 * kSlice; i < 2 * kSlice + 2; ++i) {
      const auto words = *reinterpret_cast<const uint2*>(visible + 8 * i + lane() % 4 * 2);
      s_[i][0] = (words.x & bits.x) != 0 ? s_[i][0] : -INFINITY;
      s_[i][1] = (words.y & bits.x) != 0 ? s_[i][1] : -INFINITY;
      s_[i][2] = (words.x & bits.y) != 0 ? s_[i][2] : -INFINITY;
      s_[i][3] = (words.y & bits.y) != 0 ? s_[i][3] : -INFINITY;
    }
  }

  /// Masks the logits behind the ends of short slices.
  __device__ __forceinline__ void mask_ends(SliceLengths lengths) {
    const int column = lane() % 4 * 2;
#pragma unroll
    for (int i = 0; i < kStageTokens / 8; ++i) {
      const int tokens = lengths.of(i / 2) - i % 2 * 8 - column;
      s_[i][0] = tokens > 0 ? s_[i][0] : -INFINITY;
      s_[i][1] = tokens > 1 ? s_[i][1] : -INFINITY;
      s_[i][2] = tokens > 0 ? s_[i][2] : -INFINITY;
      s_[i][3] = tokens > 1 ? s_[i][3] : -INFINITY;
    }
  }

  /// Updates the row maxima from the logits. If one has grown by more than kLag, `rescale` must scale O.
  __device__ __forceinline__ void row_max() {
    // Reduces as a tree: a chain would wait at each link.
    constexpr int kBlocks = kStageTokens / 8;
    float of_block[kBlocks][2];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      of_block[i][0] = fmaxf(s_[i][0], s_[i][1]);
      of_block[i][1] = fmaxf(s_[i][2], s_[i][3]);
    }
#pragma unroll
    for (int half = kBlocks / 2; half > 0; half /= 2) {
#pragma unroll
      for (int i = 0; i < half; ++i) {
        of_block[i][0] = fmaxf(of_block[i][0], of_block[i + half][0]);
        of_block[i][1] = fmaxf(of_block[i][1], of_block[i + half][1]);
      }
    }
    const float largest[2] = {of_block[0][0], of_block[0][1]};  // over the columns of this lane
    grown_ = __any_sync(kWholeWarp, largest[0] * scale_ > max[0] + kLag || largest[1] * scale_ > max[1] + kLag) != 0;
    if (grown_) raise(largest);
  }

  /// Scales O to the reference of the last `row_max`.
  __device__ __forceinline__ void rescale() {
    if (!grown_) return;
#pragma unroll
    for (int i = 0; i < S::kColumns / 8; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) o[i][j] *= factor_[j / 2];
    }
  }

  /// Turns logits into weights 2^(scale * logit - max) and adds them up. Products of earlier weights may still be in
  /// flight.
  __device__ __forceinline__ void exp_scores() {
    // A row without a visible token so far has only logits of -inf: any finite reference makes their weights 0.
    const float base[2] = {max[0] == -INFINITY ? 0 : max[0], max[1] == -INFINITY ? 0 : max[1]};
#pragma unroll
    for (int i = 0; i < kStageTokens / 8; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) s_[i][j] = exp2_approx(fmaf(s_[i][j], scale_, -base[j / 2]));
      sum[0] += s_[i][0] + s_[i][1];
      sum[1] += s_[i][2] + s_[i][3];
    }
    fence_operand(s_);  // computes the weights here, while products run
  }

  /// Rounds the weights to fragments for the next products. Products of earlier weights must be done.
  __device__ __forceinline__ void convert_p() {
#pragma unroll
    for (int i = 0; i < kStageTokens / 8; ++i) {
      weights_[i / 2][i % 2 * 2] = Element::round(s_[i][0], s_[i][1]);
      weights_[i / 2][i % 2 * 2 + 1] = Element::round(s_[i][2], s_[i][3]);
    }
  }

 private:
  // Returns the bits of the two queries in the word of word_of_queries().
  __device__ __forceinline__ uint2 bits_of_queries() const {
    return {1u << (queries_ & 31), 1u << (queries_ >> 8 & 31)};
  }

  // Raises the references. A row's logits are distributed over four lanes.
  __device__ __forceinline__ void raise(const float (&largest)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float reference = fmaxf(largest[row], __shfl_xor_sync(kWholeWarp, largest[row], 1));
      reference = fmaxf(reference, __shfl_xor_sync(kWholeWarp, reference, 2)) * scale_;
      // Decided by the row alone, so that its bits do not depend on the warp's other rows.
      reference = reference > max[row] + kLag ? reference : max[row];
      factor_[row] = reference == max[row] ? 1 : exp2_approx(max[row] - reference);
      max[row] = reference;
      sum[row] *= factor_[row];
    }
  }

  std::uint32_t q_[S::kDim / 16][4];
  std::uint32_t weights_[kStageTokens / 16][4];
  float s_[kStageTokens / 8][4];
  float factor_[2];
  bool grown_;
  std::uint32_t queries_ = 0;  // queries of the lane's two rows, a byte each
  std::uint32_t slots_;
  int thread_;
  float scale_;
};

}  // namespace trunkline::cuda::sm90
