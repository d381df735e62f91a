// What the warps of a CTA share: the ring of tiles, what belongs to them, and the barriers that hand them over.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/common/ptx.cuh"
#include "exec/cuda/common/ring.cuh"
#include "exec/cuda/sm90/config.hpp"

namespace trunkline::cuda::sm90 {

/// One (item, KV head), as the consumers see it.
struct TaskInfo {
  std::int32_t number;  // in the queue; -1: there are no more tasks
  std::int32_t head;
  std::int32_t queries;
  std::int32_t halves;                // 2: each warpgroup has rows of its own; 1: both have those of the first half
  std::int32_t half_rows[kGroups];    // live rows of each
  std::int32_t first_query[kGroups];  // of each
  std::int32_t has_partials;          // of some of its queries
  std::uint8_t row_query[kMaxTileQueries];  // of the item; the second half's rows are from 64 on
  std::int32_t token[kMaxTileQueries];      // row in Q and O of each query
  std::int32_t output[kMaxTileQueries];     // its partial slot, or kDirect
};

/// What the four slices of a stage are, a byte each, as a word: each warpgroup reads it at the start of each stage.
class StageFlags {
 public:
  // Of a slice.
  static constexpr std::uint32_t kSeen = 1;      // << half: some of the half's queries see some of it
  static constexpr std::uint32_t kMasked = 4;    // << half: some do not
  static constexpr std::uint32_t kByToken = 16;  // who sees it differs by token
  static constexpr std::uint32_t kLast = 32;     // the stage is the task's last
  static constexpr std::uint32_t kByRow = 64;    // copied by ordinary instructions

  StageFlags() = default;
  /// From one lane, so that the compiler knows it for the same in all: products must not diverge.
  __device__ __forceinline__ explicit StageFlags(const std::uint8_t (&flags)[kSlices])
      : word_(__shfl_sync(kWholeWarp, *reinterpret_cast<const std::uint32_t*>(flags), 0)) {}

  __device__ __forceinline__ bool seen_by(int half) const { return (word_ & kAnySlice * (kSeen << half)) != 0; }
  __device__ __forceinline__ bool masked_for(int half) const { return (word_ & kAnySlice * (kMasked << half)) != 0; }
  __device__ __forceinline__ bool masked_for(int half, int slice) const {
    return (word_ >> (8 * slice) & kMasked << half) != 0;
  }
  __device__ __forceinline__ bool by_token(int slice) const { return (word_ >> (8 * slice) & kByToken) != 0; }
  __device__ __forceinline__ bool by_row() const { return (word_ & kAnySlice * kByRow) != 0; }
  __device__ __forceinline__ bool last() const { return (word_ & kLast) != 0; }

 private:
  static constexpr std::uint32_t kAnySlice = 0x01010101;
  std::uint32_t word_;
};

/// Written with a stage's K. Bit i of a half's word: its i-th query sees the slice, or the token.
struct StageInfo {
  std::uint64_t of_slice[kGroups][kSlices];
  std::uint64_t of_token[kGroups][kStageTokens];
  alignas(4) std::uint8_t flags[kSlices];
  std::int32_t task;  // its entry in SharedMemory::tasks; set for a task's first Q, too
};

// A task takes three slots or more (Q, K, V). Its info is read until the consumers have released them and merged: by
// then the tasks that fill the ring may be announced.
inline constexpr int kTasks = kSlots / 3 + 2;

struct SharedMemory {
  alignas(1024) std::byte slots[kSlots][kSlotBytes];
  StageInfo stages[kSlots];  // by the slot of the stage's K
  TaskInfo tasks[kTasks];
  std::int32_t popped[2];  // the tasks that the producer warps are at, and come to next
  RowState states[kGroups][kGroupRows];
  std::uint64_t full[kSlots];
  std::uint64_t empty[kSlots];
};

/// One thread, before all others use them. Full: the slot's producer warp, and the bytes and copies that it announced.
inline __device__ void init_barriers(SharedMemory& shared) {
  for (int slot = 0; slot < kSlots; ++slot) {
    barrier_init(shared_address(&shared.full[slot]), 1);
    barrier_init(shared_address(&shared.empty[slot]), kConsumerWarps);
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // box copies see them initialised
}

}  // namespace trunkline::cuda::sm90
