// Positions in the ring of slots.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/sm90/forward/config.hpp"

namespace trunkline::cuda::sm90 {

/// A slot of a ring of kSlots, and its round. One word, as consumers have few spare registers.
template <int kSlots>
class SlotPosition {
 public:
  /// Returns a value that is no position.
  static __device__ __forceinline__ SlotPosition none() { return SlotPosition(kNone); }
  SlotPosition() = default;

  __device__ __forceinline__ bool is_none() const { return word_ == kNone; }
  __device__ __forceinline__ int slot() const { return static_cast<int>(word_ % kRound); }
  __device__ __forceinline__ std::uint32_t parity() const { return word_ / kRound & 1; }
  /// Returns the position as a word. Of two positions, the later has the greater word, by the sign of the difference.
  __device__ __forceinline__ std::uint32_t word() const { return word_; }
  /// The word before the first position.
  static constexpr std::uint32_t kWordBeforeFirst = ~0u;

  __device__ __forceinline__ void advance() { word_ += slot() == kSlots - 1 ? kRound - (kSlots - 1) : 1; }
  /// Returns the position `positions` later, at most kSlots.
  __device__ __forceinline__ SlotPosition ahead(int positions) const {
    const std::uint32_t word = word_ + static_cast<std::uint32_t>(positions);
    return SlotPosition(slot() + positions >= kSlots ? word + (kRound - kSlots) : word);
  }
  /// Returns the position `positions` earlier, at most kSlots. The round before the first is odd, which a fresh
  /// mbarrier counts as complete.
  __device__ __forceinline__ SlotPosition back(int positions) const {
    const std::uint32_t word = word_ - static_cast<std::uint32_t>(positions);
    return SlotPosition(slot() < positions ? word - (kRound - kSlots) : word);
  }

 private:
  static constexpr std::uint32_t kRound = 1u << 8;
  static constexpr std::uint32_t kNone = ~0u;
  static_assert(kSlots < kRound);

  __device__ __forceinline__ explicit SlotPosition(std::uint32_t word) : word_(word) {}

  std::uint32_t word_ = 0;
};

}  // namespace trunkline::cuda::sm90
