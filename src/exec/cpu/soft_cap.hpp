// The bound of logits by a soft cap: x becomes soft_cap * tanh(x / soft_cap).
#pragma once

#include "base/inline.hpp"
#include "base/vec.hpp"

namespace trunkline::cpu {

/// cap * tanh(y), with a relative error below 3e-7; NaN for NaN. \param y logits over the soft cap
/// Below 0.6 tanh(y) is y times a polynomial in y^2, fitted for the minimum relative error (9e-8): there 1 - 2 / (e^2y
/// + 1), which serves above, would cancel, and an error of 1e-7 of the cap is more than one of small logits.
template <int kLanes>
TRUNKLINE_INLINE VecF<kLanes> cap_logits(VecF<kLanes> y, float cap) {
  using F = VecF<kLanes>;
  using I = VecI<kLanes>;
  const I sign = reinterpret_cast<I>(y) & static_cast<std::int32_t>(0x80000000U);
  const F magnitude = reinterpret_cast<F>(reinterpret_cast<I>(y) ^ sign);
  const F square = magnitude * magnitude;
  F p = square * 1.56404611e-2F - 5.22310928e-2F;
  p = p * square + 1.33135204e-1F;
  p = p * square - 3.33326216e-1F;
  const F small = magnitude + magnitude * (p * square);
  // tanh(10) is 1 in fp32. In this order a NaN stays one.
  const F bounded = broadcast<kLanes>(10.0F) < magnitude ? broadcast<kLanes>(10.0F) : magnitude;
  const F large = 1.0F - 2.0F / (exp2<kLanes>(bounded * 2.88539008F) + 1.0F);  // 2 log2(e)
  const F bound = (magnitude < 0.6F ? small : large) * cap;
  return reinterpret_cast<F>(reinterpret_cast<I>(bound) | sign);
}

/// Bounds scores in place. \param count a multiple of the lanes
template <int kLanes>
TRUNKLINE_NOINLINE void cap_scores(float* scores, int count, float cap) {
  for (int i = 0; i < count; i += kLanes) {
    store<kLanes>(scores + i, cap_logits<kLanes>(load<kLanes>(scores + i), cap));
  }
}

}  // namespace trunkline::cpu
