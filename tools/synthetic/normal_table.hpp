// Normally distributed elements at memory speed.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/float8.hpp"
#include "base/half.hpp"
#include "base/random.hpp"

namespace trunkline {

// How each element type is stored and rounded.
struct Float {
  using Type = float;
  static Type from(float value) { return value; }
};
struct Half {
  using Type = std::uint16_t;
  static Type from(float value) { return f32_to_f16(value); }
};
struct BFloat {
  using Type = std::uint16_t;
  static Type from(float value) { return f32_to_bf16(value); }
};

struct E4M3 {
  using Type = std::uint8_t;
  static Type from(float value) { return f32_to_f8(value, kE4M3); }
};
struct E5M2 {
  using Type = std::uint8_t;
  static Type from(float value) { return f32_to_f8(value, kE5M2); }
};

inline constexpr int kQuantiles = 4096;

// Standard normal quantiles, by bisection of the distribution function.
inline std::array<float, kQuantiles> normal_quantiles() {
  std::array<float, kQuantiles> quantiles{};
  for (int i = 0; i < kQuantiles; ++i) {
    const double share = (i + 0.5) / kQuantiles;
    double low = -5;
    double high = 5;
    for (int step = 0; step < 40; ++step) {
      const double middle = (low + high) / 2;
      (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
    }
    quantiles[static_cast<std::size_t>(i)] = static_cast<float>((low + high) / 2);
  }
  return quantiles;
}

// Draws normals by indexing their quantiles with 12 random bits, four to a 64-bit word: a memory's speed, not a
// logarithm's.
template <class Element>
class NormalTable {
 public:
  NormalTable() {
    const std::array<float, kQuantiles> quantiles = normal_quantiles();
    std::transform(quantiles.begin(), quantiles.end(), table_.begin(), Element::from);
  }
  void fill(typename Element::Type* out, std::int64_t count, std::uint64_t seed) const {
    RandomBits random(seed);
    for (std::int64_t i = 0; i < count; i += 4) {
      std::uint64_t bits = random.next();
      for (std::int64_t j = i; j < std::min(i + 4, count); ++j, bits >>= 16) out[j] = table_[bits % kQuantiles];
    }
  }

 private:
  std::array<typename Element::Type, kQuantiles> table_;
};

}  // namespace trunkline
