// Positions in rings of slots in shared memory.
#pragma once

#include <cstdint>

namespace trunkline::cuda {

/// A slot of the ring, and the parity of its round. One word, to save registers.
template <int kSlots>
class RingPosition {
 public:
  __device__ __forceinline__ int slot() const { return static_cast<int>(bits_ & 0xFF); }
  __device__ __forceinline__ std::uint32_t parity() const { return bits_ >> 31; }
  __device__ __forceinline__ int slot_before() const { return slot() == 0 ? kSlots - 1 : slot() - 1; }
  __device__ __forceinline__ void advance() { bits_ = slot() == kSlots - 1 ? (bits_ & kParity) ^ kParity : bits_ + 1; }
  /// Returns the position `positions` before, fewer than kSlots. Slots before the first position count as released.
  __device__ __forceinline__ RingPosition back(int positions) const {
    RingPosition position = *this;
    position.bits_ -= static_cast<std::uint32_t>(positions);
    if (slot() < positions) position.bits_ = (bits_ ^ kParity) + static_cast<std::uint32_t>(kSlots - positions);
    return position;
  }

 private:
  static constexpr std::uint32_t kParity = 1u << 31;
  std::uint32_t bits_ = 0;
};

}  // namespace trunkline::cuda
