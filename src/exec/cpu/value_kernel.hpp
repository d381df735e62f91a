// The second product, O += P V, for few rows and many: lanes run along the head dimension.
//
// A vector of V is converted on its way into a register and multiplied with the weights of all rows of a tile. So rows
// are not padded to a vector, and V need not be stored as fp32. A row's sum is in the order of the tokens whatever the
// tile, so its bits do not depend on the rows beside it.
#pragma once

#include "exec/cpu/isa.hpp"
#include "exec/cpu/token_block.hpp"

namespace trunkline::cpu {

/// Vectors of d that a tile of so many rows accumulates together. An FMA of AVX-512 broadcasts a weight from memory by
/// itself. A weight that several vectors share is an instruction more, which costs more than loading it again: 13 % of
/// this product with 8 rows on Zen 4. With fewer than six sums FMAs wait for each other.
template <class Isa>
TRUNKLINE_INLINE constexpr int value_vecs(int rows, int vecs) {
  return Isa::kBroadcastOperands && rows >= 6 ? 1 : power_of_two_within(Isa::kValueSums / rows, vecs);
}

/// o[r] += sum over t of weights[r][t] v[t]. o [kRows, kDim], weights[r * kRowStride + t * token_stride].
template <class Isa, int kDim, int kRows, int kRowStride, class Tokens>
TRUNKLINE_INLINE void add_values(const float* weights, int token_stride, const Tokens& values, int count, float* o,
                                 const Prefetch& prefetch) {
  constexpr int kLanes = Isa::kLanes;
  constexpr int kVecs = value_vecs<Isa>(kRows, kDim / kLanes);
  constexpr int kPasses = kDim / (kVecs * kLanes);  // over the tokens; they share the prefetching of the next block
  for (int pass = 0; pass < kPasses; ++pass) {
    const int element = pass * kVecs * kLanes;
    VecF<kLanes> sums[kRows][kVecs];
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int i = 0; i < kVecs; ++i) sums[r][i] = load<kLanes>(o + r * kDim + element + i * kLanes);
    }
    const float* weight_of = weights;
    for (int t = 0; t < count; ++t, weight_of += token_stride) {
      if (t % kPasses == pass) prefetch.value(t);
      VecF<kLanes> value[kVecs];
#pragma GCC unroll 8
      for (int i = 0; i < kVecs; ++i) value[i] = values.load(t, element + i * kLanes);
#pragma GCC unroll 24
      for (int r = 0; r < kRows; ++r) {
        const VecF<kLanes> weight = broadcast<kLanes>(weight_of[r * kRowStride]);
#pragma GCC unroll 8
        for (int i = 0; i < kVecs; ++i) sums[r][i] += weight * value[i];
      }
    }
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int i = 0; i < kVecs; ++i) store<kLanes>(o + r * kDim + element + i * kLanes, sums[r][i]);
    }
  }
}

/// By itself, a tile has the registers to itself. \param width of the panel: weights[t * width + r]
template <class Isa, int kDim, int kRows, class Tokens>
TRUNKLINE_NOINLINE void add_tile(const float* weights, int width, const Tokens& values, int count, float* o,
                                 const Prefetch& prefetch) {
  add_values<Isa, kDim, kRows, 1>(weights, width, values, count, o, prefetch);
}

/// The tile of `rows` rows, kMostRows or fewer by multiples of kValueStep.
template <class Isa, int kDim, int kMostRows, class Tokens>
TRUNKLINE_INLINE void add_tile_of(int rows, const float* weights, int width, const Tokens& values, int count, float* o,
                                  const Prefetch& prefetch) {
  if constexpr (kMostRows > Isa::kValueStep) {
    if (rows < kMostRows) {
      constexpr int kFewer = kMostRows - Isa::kValueStep;
      return add_tile_of<Isa, kDim, kFewer>(rows, weights, width, values, count, o, prefetch);
    }
  }
  add_tile<Isa, kDim, kMostRows>(weights, width, values, count, o, prefetch);
}

/// O of the rows of a panel, in tiles of about equal size. Rows up to the next multiple of kValueStep take part.
template <class Isa, int kDim, class Tokens>
TRUNKLINE_INLINE void add_panel_values(const float* weights, int width, int rows, const Tokens& values, int count,
                                       float* o, Prefetch prefetch) {
  constexpr int kStep = Isa::kValueStep;
  for (int first = 0; first < rows;) {
    const int left = rows - first;
    const int tiles = (left + Isa::kValueRows - 1) / Isa::kValueRows;
    const int next = ((left + tiles - 1) / tiles + kStep - 1) / kStep * kStep;
    add_tile_of<Isa, kDim, Isa::kValueRows>(next, weights + first, width, values, count, o + first * kDim, prefetch);
    prefetch.next = nullptr;  // the first tile has fetched all, in less time than it computed
    first += next;
  }
}

}  // namespace trunkline::cpu
