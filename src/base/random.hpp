// Random bits that are the same on every platform, unlike the standard library's distributions and shuffles.
#pragma once

#include <cstdint>

namespace trunkline {

/// SplitMix64's finaliser (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a bijection whose
/// output bits all depend on all input bits.
constexpr std::uint64_t mix_bits(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/// SplitMix64: a counter behind mix_bits, so any point of the stream can be reached at once.
class RandomBits {
 public:
  explicit constexpr RandomBits(std::uint64_t seed) : state_(seed) {}
  constexpr std::uint64_t next() { return mix_bits(state_ += kGolden); }
  /// In [0, bound), by multiplication with the upper 32 bits; the bias is at most bound / 2^32.
  constexpr std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }

 private:
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio: SplitMix64's step
  std::uint64_t state_;
};

}  // namespace trunkline
