// Quotients of 64 bits.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

/// a / b, neither negative, where compilers know b: a shift, if that is a power of two.
TRUNKLINE_HOST_DEVICE constexpr std::int64_t quotient_by_constant(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) / static_cast<std::uint64_t>(b));
}
/// a / b, neither negative.
TRUNKLINE_HOST_DEVICE inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  return quotient_by_constant(a, b);
}
/// a / b, rounded up.
TRUNKLINE_HOST_DEVICE inline std::int64_t quotient_up(std::int64_t a, std::int64_t b) {
  return quotient(a + b - 1, b);
}

}  // namespace trunkline
