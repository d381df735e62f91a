// Scores and softmax of a few rows over a block of tokens: lanes of the product run along the head dimension.
//
// Computes, for each row r of the item's queries and grouped heads, S[r][t] = q[r] . k[t] and the online softmax of S.
// Per token and KV head an item reads 2 d elements and does 4 d FLOPs a row: up to about ten rows the memory is the
// limit (f16, d 128: 512 bytes a token against 512 FLOPs a row), so padding rows to whole vectors would cost more than
// the horizontal sums do (3 instructions a row and token against 2 d / lanes = 16 FMAs).
#pragma once

#include <utility>

#include "exec/cpu/isa.hpp"
#include "exec/cpu/softmax.hpp"
#include "exec/cpu/token_block.hpp"

namespace trunkline::cpu {

/// Rows that the narrow kernel is compiled for; an item of another number computes up to one row of zeros more. All
/// rows go through a block together, so that K and V are read and converted once.
TRUNKLINE_INLINE constexpr int narrow_rows(int rows) {
  return rows <= 4 ? rows : (rows + 1) / 2 * 2;
}

struct Sum {
  template <class Vec>
  static TRUNKLINE_INLINE Vec of(const Vec& a, const Vec& b) {
    return a + b;
  }
};
struct Maximum {
  template <class Vec>
  static TRUNKLINE_INLINE Vec of(const Vec& a, const Vec& b) {
    return a > b ? a : b;
  }
};

template <class Operation, int kLanes, int kStep, std::size_t... kLane>
TRUNKLINE_INLINE VecF<kLanes> reduce_neighbours(const VecF<kLanes>& a, const VecF<kLanes>& b,
                                                std::index_sequence<kLane...>) {
  // Lane i with bit kStep clear gets a[i] and a[i ^ kStep], with the bit set b[i] and b[i ^ kStep].
  return Operation::of(
      VecF<kLanes>(__builtin_shufflevector(a, b, (((kLane & kStep) != 0 ? kLanes : 0) + kLane)...)),
      VecF<kLanes>(__builtin_shufflevector(a, b, (((kLane & kStep) != 0 ? kLanes : 0) + (kLane ^ kStep))...)));
}

/// Reduces kCount vectors, at most kLanes, to one whose lane i < kCount holds the sum, or the maximum, over the lanes
/// of vector i. log2(kLanes) rounds; while there are several vectors, each round also halves their number.
template <class Operation, int kLanes, int kCount, int kStep = 1>
TRUNKLINE_INLINE VecF<kLanes> reduce_each(VecF<kLanes>* vectors) {
  if constexpr (kStep == kLanes) {
    return vectors[0];
  } else {
#pragma GCC unroll 16
    for (int pair = 0; pair < (kCount + 1) / 2; ++pair) {
      const int second = 2 * pair + 1 < kCount ? 2 * pair + 1 : 2 * pair;  // an odd one out is its own neighbour
      vectors[pair] = reduce_neighbours<Operation, kLanes, kStep>(vectors[2 * pair], vectors[second],
                                                                  std::make_index_sequence<kLanes>());
    }
    return reduce_each<Operation, kLanes, (kCount + 1) / 2, 2 * kStep>(vectors);
  }
}

/// scores[r][t] = q[r] . k[t] for kRows rows and all tokens of a block. q [kRows, kDim], scores [kRows, kBlockTokens].
template <class Isa, int kDim, int kRows, class Tokens>
TRUNKLINE_INLINE void narrow_scores(const float* q, const Tokens& keys, int count, float* scores,
                                    const Prefetch& prefetch) {
  constexpr int kLanes = Isa::kLanes;
  constexpr int kGroup = power_of_two_within(kLanes / kRows, kSmallBlockTokens);  // tokens whose sums fit one vector
  constexpr int kSums = kRows * kGroup;
  for (int first = 0; first < count; first += kGroup) {
    for (int t = first; t < first + kGroup; ++t) prefetch.key(t);
    VecF<kLanes> sums[kSums] = {};
#pragma GCC unroll 1
    for (int element = 0; element < kDim; element += kLanes) {
      VecF<kLanes> row[kRows];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) row[r] = load<kLanes>(q + r * kDim + element);
#pragma GCC unroll 16
      for (int t = 0; t < kGroup; ++t) {
        const VecF<kLanes> key = keys.load(first + t, element);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) sums[r * kGroup + t] += row[r] * key;
      }
    }
    float dots[kLanes];
    store<kLanes>(dots, reduce_each<Sum, kLanes, kSums>(sums));
    for (int r = 0; r < kRows; ++r) {
      __builtin_memcpy(scores + r * kBlockTokens + first, dots + r * kGroup, kGroup * sizeof(float));
    }
  }
}

/// Turns scores [kRows, kBlockTokens] into weights; rescales O only when a maximum grew past the threshold. Hidden
/// tokens have score -inf. Maxima and sums are reduced for all rows at once: per row, the horizontal steps would cost
/// more than the weights.
template <class Isa, int kDim, int kRows>
TRUNKLINE_INLINE void narrow_softmax(float* scores, int count, float* maxima, float* sums, float* o) {
  constexpr int kLanes = Isa::kLanes;
  const float infinity = __builtin_inff();
  const int padded = (count + kLanes - 1) / kLanes * kLanes;
  VecF<kLanes> highest[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    float* row = scores + r * kBlockTokens;
    for (int t = count; t < padded; ++t) row[t] = -infinity;
    highest[r] = load<kLanes>(row);
    for (int t = kLanes; t < padded; t += kLanes) highest[r] = max<kLanes>(highest[r], load<kLanes>(row + t));
  }
  const VecF<kLanes> top = reduce_each<Maximum, kLanes, kRows>(highest);
  VecF<kLanes> maximum = broadcast<kLanes>(infinity);  // lanes beyond the rows never rise
  __builtin_memcpy(&maximum, maxima, kRows * sizeof(float));
  if (any<kLanes>(top > maximum + kRescaleThreshold)) {
    const VecF<kLanes> risen = max<kLanes>(maximum, top);
    // A row that has seen nothing has maximum -inf and O = 0: its factor is 2^-inf = 0, never NaN.
    const VecF<kLanes> factor = exp2<kLanes>(risen == maximum ? VecF<kLanes>{} : maximum - risen);
    for (int r = 0; r < kRows; ++r) {
      sums[r] *= factor[r];
      for (int element = r * kDim; element < (r + 1) * kDim; element += kLanes) {
        store<kLanes>(o + element, load<kLanes>(o + element) * factor[r]);
      }
    }
    maximum = risen;
    __builtin_memcpy(maxima, &maximum, kRows * sizeof(float));
  }
  // Nothing seen yet: any finite reference turns scores of -inf into weights of 0, where -inf would give NaN.
  const VecF<kLanes> reference = maximum == broadcast<kLanes>(-infinity) ? VecF<kLanes>{} : maximum;
  VecF<kLanes> totals[kRows] = {};
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < padded; t += kLanes) {
      float* at = scores + r * kBlockTokens + t;
      const VecF<kLanes> weight = exp2<kLanes>(load<kLanes>(at) - reference[r]);
      store<kLanes>(at, weight);
      totals[r] += weight;
    }
  }
  const VecF<kLanes> total = reduce_each<Sum, kLanes, kRows>(totals);
  for (int r = 0; r < kRows; ++r) sums[r] += total[r];
}

}  // namespace trunkline::cpu
