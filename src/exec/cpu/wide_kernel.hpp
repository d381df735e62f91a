// Scores and softmax of many rows over a block of tokens: lanes run along the rows.
//
// Q is held transposed in panels of up to kPanelVecs vectors of rows, [d][rows of the panel], so scores come out as
// [token][row]: the softmax needs no horizontal sums, and the product is a matrix product of a panel with the broadcast
// elements of K. Each of the kTokenBlock x kPanelVecs accumulators is used once per broadcast.
#pragma once

#include "exec/cpu/isa.hpp"
#include "exec/cpu/softmax.hpp"
#include "exec/cpu/token_block.hpp"

namespace trunkline::cpu {

/// Tokens computed together. A single vector of rows takes twice as many: an FMA has 4 cycles of
/// latency on 2 ports, so fewer than 8 independent sums leave the ports idle, and just 8 leave no slack.
template <class Isa, int kVecs>
TRUNKLINE_INLINE constexpr int wide_block() {
  return kVecs == 1 ? 2 * Isa::kTokenBlock : Isa::kTokenBlock;
}

/// scores[t][row] = q[row] . k[t]. q [kDim][kVecs * lanes], keys [kBlockTokens][kDim], scores [kBlockTokens][kVecs *
/// lanes].
template <class Isa, int kDim, int kVecs>
TRUNKLINE_INLINE void wide_scores(const float* q, const float* keys, int count, float* scores,
                                  const Prefetch& prefetch) {
  constexpr int kLanes = Isa::kLanes;
  constexpr int kTokens = wide_block<Isa, kVecs>();
  constexpr int kRows = kVecs * kLanes;
  for (int first = 0; first < count; first += kTokens) {
    VecF<kLanes> sums[kTokens][kVecs] = {};
    const float* key = keys + first * kDim;
    for (int part = 0; part < kTokens; ++part) {
      prefetch.key(first + part);
#pragma GCC unroll 2
      for (int element = part * (kDim / kTokens); element < (part + 1) * (kDim / kTokens); ++element) {
        VecF<kLanes> rows[kVecs];
#pragma GCC unroll 4
        for (int i = 0; i < kVecs; ++i) rows[i] = load<kLanes>(q + element * kRows + i * kLanes);
#pragma GCC unroll 16
        for (int t = 0; t < kTokens; ++t) {
          const VecF<kLanes> factor = broadcast<kLanes>(key[t * kDim + element]);
#pragma GCC unroll 4
          for (int i = 0; i < kVecs; ++i) sums[t][i] += rows[i] * factor;
        }
      }
    }
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
      for (int i = 0; i < kVecs; ++i) store<kLanes>(scores + (first + t) * kRows + i * kLanes, sums[t][i]);
    }
  }
}

/// Turns scores [count][kVecs * lanes] into weights, row by lane; rescales rows of O [kVecs * lanes, kDim] only when
/// their maximum grew past the threshold.
template <class Isa, int kDim, int kVecs>
TRUNKLINE_INLINE void wide_softmax(float* scores, int count, float* maxima, float* sums, float* o) {
  constexpr int kLanes = Isa::kLanes;
  constexpr int kRows = kVecs * kLanes;
#pragma GCC unroll 4
  for (int i = 0; i < kVecs; ++i) {
    float* column = scores + i * kLanes;
    VecF<kLanes> maximum = load<kLanes>(maxima + i * kLanes);
    VecF<kLanes> sum = load<kLanes>(sums + i * kLanes);
    VecF<kLanes> highest = load<kLanes>(column);
    for (int t = 1; t < count; ++t) highest = max<kLanes>(highest, load<kLanes>(column + t * kRows));
    if (any<kLanes>(highest > maximum + kRescaleThreshold)) {
      // Row by row, so that a row's bits do not depend on those beside it.
      const VecF<kLanes> risen = highest > maximum + kRescaleThreshold ? highest : maximum;
      // A row that has seen nothing has maximum -inf and O = 0: its factor is 2^-inf = 0, never NaN.
      const VecF<kLanes> factor = exp2<kLanes>(risen == maximum ? VecF<kLanes>{} : maximum - risen);
      for (int lane = 0; lane < kLanes; ++lane) {
        if (factor[lane] == 1.0F) continue;
        float* row = o + (i * kLanes + lane) * kDim;
        for (int element = 0; element < kDim; element += kLanes) {
          store<kLanes>(row + element, load<kLanes>(row + element) * factor[lane]);
        }
      }
      sum *= factor;
      maximum = risen;
      store<kLanes>(maxima + i * kLanes, maximum);
    }
    const VecF<kLanes> reference = maximum == broadcast<kLanes>(-__builtin_inff()) ? VecF<kLanes>{} : maximum;
    for (int t = 0; t < count; ++t) {
      const VecF<kLanes> weight = exp2<kLanes>(load<kLanes>(column + t * kRows) - reference);
      store<kLanes>(column + t * kRows, weight);
      sum += weight;
    }
    store<kLanes>(sums + i * kLanes, sum);
  }
}

}  // namespace trunkline::cpu
