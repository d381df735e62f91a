// Tokens of a page, by which devices divide in three instructions: they have none to divide integers, and take twenty.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

/// As its number of tokens, but for dividing by it: n / d is n times ceil(2^(31 + l) / d), shifted by 31 + l, exactly,
/// for 0 <= n < 2^31 and 2^l the least power of two that is no less than d (Granlund and Montgomery, "Division by
/// invariant integers using multiplication", 1994, theorem 4.2).
class PageSize {
 public:
  /// \param tokens 1 at least; less counts as 1 where it divides
  TRUNKLINE_HOST_DEVICE constexpr PageSize(std::int32_t tokens) : tokens_(tokens) {
    const auto divisor = static_cast<std::uint32_t>(most(tokens, 1));
    while (std::uint32_t{1} << (shift_ - kBits) < divisor) ++shift_;
    multiplier_ = static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + divisor - 1) / divisor);
  }

  TRUNKLINE_HOST_DEVICE constexpr operator std::int32_t() const { return tokens_; }
  /// \param tokens not negative
  TRUNKLINE_HOST_DEVICE constexpr friend std::int32_t operator/(std::int32_t tokens, PageSize size) {
    return static_cast<std::int32_t>((std::uint64_t{static_cast<std::uint32_t>(tokens)} * size.multiplier_) >>
                                     size.shift_);
  }

 private:
  static constexpr std::int32_t kBits = 31;

  std::int32_t tokens_;
  std::uint32_t multiplier_ = 0;
  std::int32_t shift_ = kBits;
};

/// Pages that hold so many tokens.
TRUNKLINE_HOST_DEVICE constexpr std::int32_t team_pages(std::int32_t tokens, PageSize page_size) {
  const std::int32_t whole = tokens / page_size;
  return whole + (whole * page_size != tokens ? 1 : 0);
}

}  // namespace trunkline
