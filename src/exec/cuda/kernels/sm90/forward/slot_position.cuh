// A place in the ring of slots.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/sm90/forward/config.hpp"

namespace trunkline::cuda::sm90 {

/// A slot, and in which of its rounds. One word: consumers have few registers to spare.
class SlotPosition {
 public:
  /// No place.
  static __device__ __forceinline__ SlotPosition none() { return SlotPosition(kNone); }
  SlotPosition() = default;

  __device__ __forceinline__ bool is_none() const { return word_ == kNone; }
  __device__ __forceinline__ int slot() const { return static_cast<int>(word_ % kRound); }
  __device__ __forceinline__ std::uint32_t parity() const { return word_ / kRound & 1; }
  /// A later place's is greater, by the sign of the difference.
  __device__ __forceinline__ std::uint32_t word() const { return word_; }
  /// Of what comes before the first place.
  static constexpr std::uint32_t kWordBeforeFirst = ~0u;

  __device__ __forceinline__ void advance() { word_ += slot() == kSlots - 1 ? kRound - (kSlots - 1) : 1; }
  /// So many places on, no more than there are slots.
  __device__ __forceinline__ SlotPosition ahead(int places) const {
    const std::uint32_t word = word_ + static_cast<std::uint32_t>(places);
    return SlotPosition(slot() + places >= kSlots ? word + (kRound - kSlots) : word);
  }
  /// So many places before, at most as many as there are slots. Before the first lies an odd round, which a fresh
  /// barrier counts as complete.
  __device__ __forceinline__ SlotPosition back(int places) const {
    const std::uint32_t word = word_ - static_cast<std::uint32_t>(places);
    return SlotPosition(slot() < places ? word - (kRound - kSlots) : word);
  }

 private:
  static constexpr std::uint32_t kRound = 1u << 8;
  static constexpr std::uint32_t kNone = ~0u;
  static_assert(kSlots < kRound);

  __device__ __forceinline__ explicit SlotPosition(std::uint32_t word) : word_(word) {}

  std::uint32_t word_ = 0;
};

}  // namespace trunkline::cuda::sm90
