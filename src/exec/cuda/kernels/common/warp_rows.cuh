// Matrix products and online softmax of one warp by mma.sync: 16 rows against up to 64 tokens at a time. Rows of Q, K
// and V lie in shared memory one after the other, chunk c of 16 bytes of row r at c ^ (r % 8), so that the eight rows
// of an 8 x 8 matrix lie in different banks.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda {

/// A warp's rows: fragments of Q and O, and the state of the online softmax. A lane has rows lane / 4 and lane / 4 + 8
/// of the warp's 16, and columns 2 (lane % 4) + {0, 1} of each 8.
template <class Element, int kDim>
class WarpRows {
  static constexpr int kRowBytes = 2 * kDim;
  // O is rescaled only when the maximal logit has grown by 8, in base 2: weights are then at most 256, far below fp16's
  // 65504, and rescaling is rare.
  static constexpr float kLag = 8;

 public:
  float o[kDim / 8][4];
  float max[2];     // reference of the sums: at most kLag below the maximal logit so far
  float sum[2];     // partial sum of this lane
  unsigned thread;  // of the CTA

  /// \param scale of the logits, at least 0
  __device__ __forceinline__ WarpRows(unsigned index, float scale) : thread(index), scale_(scale) {}

  __device__ __forceinline__ int lane() const { return static_cast<int>(thread % 32); }
  __device__ __forceinline__ int warp() const { return static_cast<int>(thread / 32); }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;
    max[0] = max[1] = -INFINITY;
    sum[0] = sum[1] = 0;
  }

  /// Loads rows first_row .. + 15 of a slot as fragments of Q; `flip` negates them.
  __device__ __forceinline__ void load_queries(std::uint32_t slot, int first_row, bool flip) {
    const int row = first_row + lane() % 16;
    const std::uint32_t at = slot + row * kRowBytes + (((lane() / 16) ^ (lane() % 8)) << 4);
    const std::uint32_t sign = flip ? 0x80008000u : 0;
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      load_matrices(q_[k], at ^ (k << 5));
#pragma unroll
      for (int i = 0; i < 4; ++i) q_[k][i] ^= sign;
    }
  }

  /// Computes unscaled logits against kTokens tokens of a slot from `first` on.
  template <int kTokens>
  __device__ __forceinline__ void multiply_keys(std::uint32_t slot, int first, float (&s)[kTokens / 8][4]) const {
    const int token = first + lane() % 8 + lane() / 16 * 8;
    const std::uint32_t at = slot + token * kRowBytes + (((lane() / 8 % 2) ^ (lane() % 8)) << 4);
#pragma unroll
    for (int i = 0; i < kTokens / 8; ++i) s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0;
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
      for (int i = 0; i < kTokens / 16; ++i) {
        std::uint32_t keys[4];
        load_matrices(keys, (at ^ (k << 5)) + i * 16 * kRowBytes);
        Element::multiply_add(s[2 * i], q_[k], keys[0], keys[1]);
        Element::multiply_add(s[2 * i + 1], q_[k], keys[2], keys[3]);
      }
    }
  }

  /// Sets the logits of masked tokens to -inf.
  /// \param visible mask of the first token, a bit for each query \param query queries of the lane's rows
  template <int kTokens>
  __device__ __forceinline__ void mask(const std::uint64_t* visible, const int (&query)[2],
                                       float (&s)[kTokens / 8][4]) const {
#pragma unroll
    for (int i = 0; i < kTokens / 8; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const std::uint64_t word = visible[8 * i + lane() % 4 * 2 + j];
        if (((word >> query[0]) & 1) == 0) s[i][j] = -INFINITY;
        if (((word >> query[1]) & 1) == 0) s[i][2 + j] = -INFINITY;
      }
    }
  }

  /// Turns logits into weights 2^(scale * logit - max), and rounds them to fragments in `weights`.
  template <int kTokens>
  __device__ __forceinline__ void exp_scores(float (&s)[kTokens / 8][4], std::uint32_t (&weights)[kTokens / 16][4]) {
    float largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int i = 0; i < kTokens / 8; ++i) {
      largest[0] = fmaxf(largest[0], fmaxf(s[i][0], s[i][1]));
      largest[1] = fmaxf(largest[1], fmaxf(s[i][2], s[i][3]));
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      largest[row] = fmaxf(largest[row], __shfl_xor_sync(kWholeWarp, largest[row], 1));
      largest[row] = fmaxf(largest[row], __shfl_xor_sync(kWholeWarp, largest[row], 2)) * scale_;
    }
    const bool grown = largest[0] > max[0] + kLag || largest[1] > max[1] + kLag;
    if (__any_sync(kWholeWarp, grown) != 0) rescale(largest);
    // A row without a visible token so far has only logits of -inf: any finite reference makes their weights 0.
    const float base[2] = {max[0] == -INFINITY ? 0 : max[0], max[1] == -INFINITY ? 0 : max[1]};
#pragma unroll
    for (int i = 0; i < kTokens / 8; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) s[i][j] = exp2_approx(fmaf(s[i][j], scale_, -base[j / 2]));
      sum[0] += s[i][0] + s[i][1];
      sum[1] += s[i][2] + s[i][3];
      weights[i / 2][i % 2 * 2] = Element::round(s[i][0], s[i][1]);
      weights[i / 2][i % 2 * 2 + 1] = Element::round(s[i][2], s[i][3]);
    }
  }

  template <int kTokens>
  __device__ __forceinline__ void multiply_values(std::uint32_t slot, int first,
                                                  const std::uint32_t (&weights)[kTokens / 16][4]) {
    const int token = first + lane() % 16;
    const std::uint32_t at = slot + token * kRowBytes + (((lane() / 16) ^ (lane() % 8)) << 4);
#pragma unroll
    for (int i = 0; i < kTokens / 16; ++i) {
#pragma unroll
      for (int column = 0; column < kDim / 16; ++column) {
        std::uint32_t values[4];
        load_matrices_transposed(values, (at ^ (column << 5)) + i * 16 * kRowBytes);
        Element::multiply_add(o[2 * column], weights[i], values[0], values[1]);
        Element::multiply_add(o[2 * column + 1], weights[i], values[2], values[3]);
      }
    }
  }

 private:
  __device__ __forceinline__ void rescale(const float (&largest)[2]) {
    float factor[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      // Decided by the row alone, so that its bits do not depend on the warp's other rows.
      const float reference = largest[row] > max[row] + kLag ? largest[row] : max[row];
      factor[row] = reference == max[row] ? 1 : exp2_approx(max[row] - reference);
      max[row] = reference;
      sum[row] *= factor[row];
    }
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) o[i][j] *= factor[j / 2];
    }
  }

  std::uint32_t q_[kDim / 16][4];
  float scale_;
};

}  // namespace trunkline::cuda
