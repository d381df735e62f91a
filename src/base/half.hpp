// Conversions between fp32 and the 16-bit element types, in portable integer arithmetic: every host gives the same
// bits. Rounding is to nearest, ties to even; subnormals, infinities and signs of zero are kept; a NaN stays a (quiet)
// NaN.
#pragma once

#include <bit>
#include <cstdint>

#include "base/inline.hpp"

namespace trunkline {

TRUNKLINE_INLINE float f16_to_f32(std::uint16_t half) {
  const std::uint32_t sign = (std::uint32_t{half} & 0x8000u) << 16;
  const std::uint32_t magnitude = std::uint32_t{half} & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity, NaN
    const std::uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13) | quiet);
  }
  if (magnitude < 0x0400u) {  // zero, subnormal: magnitude * 2^-24, exact in fp32
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));  // exponent bias 15 -> 127
}

TRUNKLINE_INLINE std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  // 65520 lies halfway between the largest half, 65504, and the next step: it and all above round to infinity.
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) {  // 2^-14: a normal half
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<std::uint16_t>(sign | ((magnitude - (112u << 23) + 0xfffu + odd) >> 13));
  }
  if (magnitude < 0x33000000u) return sign;              // below 2^-25, half of the smallest subnormal
  const std::uint32_t shift = 126u - (magnitude >> 23);  // 14 .. 24 mantissa bits fall off
  const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t odd = (mantissa >> shift) & 1u;
  const std::uint32_t half_step = std::uint32_t{1} << (shift - 1);
  return static_cast<std::uint16_t>(sign | ((mantissa + half_step - 1u + odd) >> shift));
}

TRUNKLINE_INLINE float bf16_to_f32(std::uint16_t half) {
  const std::uint32_t quiet = (half & 0x7fffu) > 0x7f80u ? 0x00400000u : 0u;
  return std::bit_cast<float>((std::uint32_t{half} << 16) | quiet);
}

TRUNKLINE_INLINE std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  const std::uint32_t odd = (bits >> 16) & 1u;
  return static_cast<std::uint16_t>((bits + 0x7fffu + odd) >> 16);
}

}  // namespace trunkline
