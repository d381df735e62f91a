// Attention of a few rows over a block of tokens: lanes run along the head dimension.
//
// Computes, for each row r of the item's queries and grouped heads, S[r][t] = q[r] . k[t], the online softmax of S, and
// o[r] += P[r][t] v[t]. Per token and KV head it reads 2 d elements and does 4 d FLOPs a row: up to about ten rows the
// memory is the limit (f16, d 128: 512 bytes a token against 512 FLOPs a row), so padding rows to whole vectors would
// cost more than the horizontal sums do (3 instructions a row and token against 2 d / lanes = 16 FMAs).
#pragma once

#include <utility>

#include "exec/cpu/isa.hpp"
#include "exec/cpu/token_block.hpp"

namespace trunkline::cpu {

/// Tokens as they lie in the cache, converted on the fly: for one group of rows, which passes over them once.
template <class Isa, class Element>
struct CachedTokens {
  const std::byte* base;
  const std::int64_t* offsets;
  TRUNKLINE_INLINE VecF<Isa::kLanes> load(int token, int element) const {
    return load_elements<Isa, Element>(base + offsets[token] + std::int64_t{element} * Element::kBytes);
  }
};

/// Tokens converted to fp32 before: for several groups of rows.
template <class Isa, int kDim>
struct ConvertedTokens {
  const float* rows;
  TRUNKLINE_INLINE VecF<Isa::kLanes> load(int token, int element) const {
    return trunkline::load<Isa::kLanes>(rows + token * kDim + element);
  }
};

template <int kLanes, int kStep, std::size_t... kLane>
TRUNKLINE_INLINE VecF<kLanes> add_neighbours(const VecF<kLanes>& a, const VecF<kLanes>& b,
                                             std::index_sequence<kLane...>) {
  // Lane i with bit kStep clear gets a[i] + a[i ^ kStep], with the bit set b[i] + b[i ^ kStep].
  return __builtin_shufflevector(a, b, (((kLane & kStep) != 0 ? kLanes : 0) + kLane)...) +
         __builtin_shufflevector(a, b, (((kLane & kStep) != 0 ? kLanes : 0) + (kLane ^ kStep))...);
}

/// Replaces kLanes vectors by one whose lane i is the sum of vector i: log2(kLanes) rounds of pairwise sums.
template <int kLanes, int kStep = 1>
TRUNKLINE_INLINE VecF<kLanes> sum_each(VecF<kLanes>* vectors) {
  if constexpr (kStep == kLanes) {
    return vectors[0];
  } else {
#pragma GCC unroll 16
    for (int pair = 0; pair < kLanes / kStep / 2; ++pair) {
      vectors[pair] =
          add_neighbours<kLanes, kStep>(vectors[2 * pair], vectors[2 * pair + 1], std::make_index_sequence<kLanes>());
    }
    return sum_each<kLanes, 2 * kStep>(vectors);
  }
}

/// scores[r][t] = q[r] . k[t] for kRows rows and all tokens of a block. q [kRows, kDim], scores [kRows, kBlockTokens].
template <class Isa, int kDim, int kRows, class Tokens>
TRUNKLINE_INLINE void narrow_scores(const float* q, const Tokens& keys, int count, float* scores,
                                    const Prefetch& prefetch) {
  constexpr int kLanes = Isa::kLanes;
  constexpr int kGroup = kLanes / kRows;  // tokens that fill one vector of sums
  for (int first = 0; first < count; first += kGroup) {
    for (int t = first; t < first + kGroup; ++t) prefetch.key(t);
    VecF<kLanes> sums[kLanes] = {};
#pragma GCC unroll 1
    for (int element = 0; element < kDim; element += kLanes) {
      VecF<kLanes> row[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) row[r] = load<kLanes>(q + r * kDim + element);
#pragma GCC unroll 16
      for (int t = 0; t < kGroup; ++t) {
        const VecF<kLanes> key = keys.load(first + t, element);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sums[r * kGroup + t] += row[r] * key;
      }
    }
    float dots[kLanes];
    store<kLanes>(dots, sum_each<kLanes>(sums));
    for (int r = 0; r < kRows; ++r) {
      __builtin_memcpy(scores + r * kBlockTokens + first, dots + r * kGroup, kGroup * sizeof(float));
    }
  }
}

/// o[r] += sum over t of weights[r][t] v[t]. o [kRows, kDim].
template <class Isa, int kDim, int kRows, class Tokens>
TRUNKLINE_INLINE void narrow_values(const float* weights, const Tokens& values, int count, float* o,
                                    const Prefetch& prefetch) {
  constexpr int kLanes = Isa::kLanes;
  constexpr int kVecs = Isa::kValueVecs;
  constexpr int kPrefetchStride =
      kDim / (kVecs * kLanes);  // passes over the tokens share the prefetching of the next block
  for (int element = 0; element < kDim; element += kVecs * kLanes) {
    VecF<kLanes> sums[kRows][kVecs];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) sums[r][i] = load<kLanes>(o + r * kDim + element + i * kLanes);
    }
    for (int t = 0; t < count; ++t) {
      if (t % kPrefetchStride == element / (kVecs * kLanes)) prefetch.value(t);
      VecF<kLanes> value[kVecs];
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) value[i] = values.load(t, element + i * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const VecF<kLanes> weight = broadcast<kLanes>(weights[r * kBlockTokens + t]);
#pragma GCC unroll 4
        for (int i = 0; i < kVecs; ++i) sums[r][i] += weight * value[i];
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) store<kLanes>(o + r * kDim + element + i * kLanes, sums[r][i]);
    }
  }
}

/// Turns one row's scores into weights and rescales o where the maximum rose. Hidden tokens have score -inf.
template <class Isa, int kDim>
TRUNKLINE_INLINE void narrow_softmax(float* scores, int count, float& maximum, float& sum, float* o) {
  constexpr int kLanes = Isa::kLanes;
  const float minus_infinity = -__builtin_inff();
  const int padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int t = count; t < padded; ++t) scores[t] = minus_infinity;
  VecF<kLanes> highest = load<kLanes>(scores);
  for (int t = kLanes; t < padded; t += kLanes) highest = max<kLanes>(highest, load<kLanes>(scores + t));
  const float block_maximum = horizontal_max<kLanes>(highest);
  if (block_maximum > maximum) {
    const float factor = exp2<kLanes>(broadcast<kLanes>(maximum - block_maximum))[0];
    for (int element = 0; element < kDim; element += kLanes)
      store<kLanes>(o + element, load<kLanes>(o + element) * factor);
    sum *= factor;
    maximum = block_maximum;
  }
  // Nothing seen yet: any finite reference turns scores of -inf into weights of 0, where -inf would give NaN.
  const float reference = maximum == minus_infinity ? 0.0F : maximum;
  VecF<kLanes> total = {};
  for (int t = 0; t < padded; t += kLanes) {
    const VecF<kLanes> weight = exp2<kLanes>(load<kLanes>(scores + t) - reference);
    store<kLanes>(scores + t, weight);
    total += weight;
  }
  sum += horizontal_sum<kLanes>(total);
}

}  // namespace trunkline::cpu
