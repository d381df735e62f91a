// Vectors of fp32 lanes by the compiler's vector extensions: one source, compiled once per instruction set.
// Everything here is a template over the lane count or has internal linkage in effect: the same header is compiled with
// different target flags, and a shared inline function could leak AVX-512 code into a binary that starts on an older
// machine.
#pragma once

#include <cstdint>

#include "base/inline.hpp"

namespace trunkline {

template <int kLanes>
struct VecTypes {
  typedef float Float __attribute__((vector_size(4 * kLanes)));
  typedef std::int32_t Int __attribute__((vector_size(4 * kLanes)));
  typedef std::uint32_t Uint __attribute__((vector_size(4 * kLanes)));
  typedef std::uint16_t Half __attribute__((vector_size(2 * kLanes)));
  typedef std::int8_t SignedByte __attribute__((vector_size(kLanes)));
  typedef std::int16_t SignedHalf __attribute__((vector_size(2 * kLanes)));
};
template <int kLanes>
using VecF = typename VecTypes<kLanes>::Float;
template <int kLanes>
using VecI = typename VecTypes<kLanes>::Int;

template <int kLanes>
TRUNKLINE_INLINE VecF<kLanes> load(const float* from) {
  VecF<kLanes> value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

template <int kLanes>
TRUNKLINE_INLINE void store(float* to, const VecF<kLanes>& value) {
  __builtin_memcpy(to, &value, sizeof(value));
}

template <int kLanes>
TRUNKLINE_INLINE VecF<kLanes> broadcast(float value) {
  return value - VecF<kLanes>{};  // value - 0 in every lane: keeps NaN, infinities and the sign of zero
}

template <int kLanes>
TRUNKLINE_INLINE VecF<kLanes> max(const VecF<kLanes>& a, const VecF<kLanes>& b) {
  return a > b ? a : b;
}

template <int kLanes>
TRUNKLINE_INLINE bool any(const VecI<kLanes>& condition) {
  std::int32_t lanes[kLanes];
  __builtin_memcpy(lanes, &condition, sizeof(lanes));
  std::int32_t all = 0;
  for (int lane = 0; lane < kLanes; ++lane) all |= lanes[lane];
  return all != 0;
}

/// 2^x for x <= 126; exactly 0 below -127 and for -inf; NaN for NaN. Relative error under 2e-7.
/// x = n + f with |f| <= 1/2; 2^f by its Taylor polynomial of degree 6 (next term: 1.2e-7 at |f| = 1/2).
template <int kLanes>
TRUNKLINE_INLINE VecF<kLanes> exp2(VecF<kLanes> x) {
  using F = VecF<kLanes>;
  using I = VecI<kLanes>;
  x = max<kLanes>(broadcast<kLanes>(-127.0F), x);  // in this order a NaN stays one
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the mantissa.
  const F magic = broadcast<kLanes>(12582912.0F);
  const F shifted = x + magic;
  const F f = x - (shifted - magic);
  const I n = reinterpret_cast<I>(shifted) - reinterpret_cast<I>(magic);
  F p = f * 1.5403530e-4F + 1.3333558e-3F;
  p = p * f + 9.6181291e-3F;
  p = p * f + 5.5504109e-2F;
  p = p * f + 2.4022651e-1F;
  p = p * f + 6.9314718e-1F;
  p = p * f + 1.0F;
  const I power = (n + 127) << 23;  // n = -127 gives the bits of 0
  return p * reinterpret_cast<F>(power);
}

template <int kLanes>
TRUNKLINE_INLINE float horizontal_sum(const VecF<kLanes>& value) {
  float lanes[kLanes];
  __builtin_memcpy(lanes, &value, sizeof(lanes));
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace trunkline
