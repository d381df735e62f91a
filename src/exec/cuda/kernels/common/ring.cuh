// What rings of tiles in shared memory have in common.
#pragma once

#include <cstdint>

namespace trunkline::cuda {

/// A position in the ring, and the parity of the round there. One word, as registers are few.
template <int kSlots>
class RingPosition {
 public:
  __device__ __forceinline__ int slot() const { return static_cast<int>(bits_ & 0xFF); }
  __device__ __forceinline__ std::uint32_t parity() const { return bits_ >> 31; }
  __device__ __forceinline__ int slot_before() const { return slot() == 0 ? kSlots - 1 : slot() - 1; }
  __device__ __forceinline__ void advance() { bits_ = slot() == kSlots - 1 ? (bits_ & kParity) ^ kParity : bits_ + 1; }
  /// So many positions before, fewer than there are; before the first all count as left.
  __device__ __forceinline__ RingPosition back(int positions) const {
    RingPosition place = *this;
    place.bits_ -= static_cast<std::uint32_t>(positions);
    if (slot() < positions) place.bits_ = (bits_ ^ kParity) + static_cast<std::uint32_t>(kSlots - positions);
    return place;
  }

 private:
  static constexpr std::uint32_t kParity = 1u << 31;
  std::uint32_t bits_ = 0;
};

}  // namespace trunkline::cuda
