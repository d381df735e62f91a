// Conversions between fp32 and the 8-bit floats of OFP8, element by element and by their definition: a sign, an
// exponent, and a mantissa that counts in 2^-mantissa_bits of the exponent's power, or of the lowest normal one's where
// the exponent field is 0. Kernels convert whole vectors in other ways, which tests compare with this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/inline.hpp"

namespace trunkline {

/// A format of 8 bits.
struct Float8Format {
  int mantissa_bits;
  int bias;
  std::uint8_t max_finite;  ///< the code of the largest number
  bool infinite;            ///< the code after max_finite is infinity; all further ones are NaN
};
inline constexpr Float8Format kE4M3 = {3, 7, 0x7E, false};
inline constexpr Float8Format kE5M2 = {2, 15, 0x7B, true};

TRUNKLINE_INLINE float f8_to_f32(std::uint8_t code, const Float8Format& format) {
  const int magnitude = code & 0x7F;
  const float sign = (code & 0x80) != 0 ? -1.0F : 1.0F;
  if (magnitude > format.max_finite) {
    const bool infinity = format.infinite && magnitude == format.max_finite + 1;
    return infinity ? sign * std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  }
  const int implicit = 1 << format.mantissa_bits;
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = (magnitude & (implicit - 1)) + (exponent > 0 ? implicit : 0);
  const int power = (exponent > 0 ? exponent : 1) - format.bias - format.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(mantissa), power);
}

/// To nearest, ties to even. What rounds beyond the largest number becomes the next code: NaN in E4M3, as PyTorch has
/// it, and infinity in E5M2.
TRUNKLINE_INLINE std::uint8_t f32_to_f8(float value, const Float8Format& format) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return 0x7F;
  if (std::isinf(value)) return static_cast<std::uint8_t>(sign | (format.max_finite + 1));
  const int lowest = 1 - format.bias;
  const int exponent = value == 0 ? lowest : std::max(std::ilogb(value), lowest);
  const double steps =
      std::nearbyint(std::ldexp(std::abs(static_cast<double>(value)), format.mantissa_bits - exponent));
  // A sum beyond the mantissa carries into the exponent.
  const double code = steps + ((exponent - lowest) << format.mantissa_bits);
  return static_cast<std::uint8_t>(sign | static_cast<int>(std::min(code, format.max_finite + 1.0)));
}

}  // namespace trunkline
