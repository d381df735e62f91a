// Small numbers from a fuzzer's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace trunkline::testing {

using Numbers = std::vector<std::int32_t>;

/// Small numbers from bytes; zero once they have run out.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::uint8_t byte() {
    if (at_ == bytes_.size()) return 0;
    return bytes_[at_++];
  }
  /// Mostly in [-2, 29]; the highest bytes give numbers at the ends of 32 bits.
  std::int32_t number() {
    const std::int32_t value = byte();
    if (value == 254) return std::numeric_limits<std::int32_t>::min();
    if (value == 255) return std::numeric_limits<std::int32_t>::max();
    return value % 32 - 2;
  }
  Numbers numbers(std::size_t count) {
    Numbers values(count);
    for (std::int32_t& value : values) value = number();
    return values;
  }
  /// A count that is right, but for the highest bytes.
  std::size_t count(std::size_t right) {
    const std::uint8_t value = byte();
    if (value == 255) return right + 1;
    return value == 254 && right > 0 ? right - 1 : right;
  }
  bool empty() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

}  // namespace trunkline::testing
