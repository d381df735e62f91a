// The 16-bit conversions against exact arithmetic: every half, every midpoint between two halves, and both sides of it.
#include "base/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>

namespace trunkline {
namespace {

// The value of a half from its definition, by ldexp.
double exact_value(std::uint16_t bits, int mantissa_bits, int bias) {
  const int exponent_bits = 15 - mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

struct Format {
  const char* name;
  int mantissa_bits;
  int bias;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
};

void PrintTo(const Format& format, std::ostream* out) {
  *out << format.name;
}

class HalfTest : public testing::TestWithParam<Format> {};

TEST_P(HalfTest, EveryHalfWidensExactlyAndComesBack) {
  const Format& format = GetParam();
  for (std::uint32_t bits = 0; bits <= 0xffffu; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double exact = exact_value(half, format.mantissa_bits, format.bias);
    const float wide = format.widen(half);
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(format.widen(format.narrow(wide)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(wide), exact) << bits;
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000u) != 0) << bits;
    ASSERT_EQ(format.narrow(wide), half) << bits;
  }
}

TEST_P(HalfTest, MidpointsRoundToEvenAndTheirNeighboursToTheNearer) {
  const Format& format = GetParam();
  const std::uint32_t infinity = ((1u << (15 - format.mantissa_bits)) - 1) << format.mantissa_bits;
  for (std::uint32_t bits = 0; bits + 1 < infinity; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const auto middle =
        static_cast<float>((static_cast<double>(format.widen(low)) + static_cast<double>(format.widen(high))) / 2);
    const std::uint16_t even = (bits & 1u) == 0 ? low : high;
    ASSERT_EQ(format.narrow(middle), even) << bits;
    ASSERT_EQ(format.narrow(-middle), even | 0x8000u) << bits;
    ASSERT_EQ(format.narrow(std::nextafterf(middle, 0.0f)), low) << bits;
    ASSERT_EQ(format.narrow(std::nextafterf(middle, std::numeric_limits<float>::infinity())), high) << bits;
  }
}

TEST_P(HalfTest, TooLargeBecomesInfinity) {
  const Format& format = GetParam();
  const auto infinity = static_cast<std::uint16_t>(((1u << (15 - format.mantissa_bits)) - 1) << format.mantissa_bits);
  const auto largest = static_cast<double>(format.widen(static_cast<std::uint16_t>(infinity - 1)));
  const double step = largest - static_cast<double>(format.widen(static_cast<std::uint16_t>(infinity - 2)));
  const auto limit = static_cast<float>(largest + step / 2);
  EXPECT_EQ(format.narrow(limit), infinity);
  EXPECT_EQ(format.narrow(std::nextafterf(limit, 0.0f)), infinity - 1);
  EXPECT_EQ(format.narrow(std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(format.narrow(-std::numeric_limits<float>::infinity()), infinity | 0x8000u);
}

INSTANTIATE_TEST_SUITE_P(Formats, HalfTest,
                         testing::Values(Format{"f16", 10, 15, f16_to_f32, f32_to_f16},
                                         Format{"bf16", 7, 127, bf16_to_f32, f32_to_bf16}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace trunkline
