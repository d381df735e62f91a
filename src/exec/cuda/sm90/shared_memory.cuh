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

/// What a warpgroup does with a stage. One word, as each reads it at the start of each stage.
class GroupShare {
 public:
  GroupShare() = default;
  __device__ __forceinline__ GroupShare(bool computes, bool masked, bool last)
      : bits_((computes ? kComputes : 0) | (masked ? kMasked : 0) | (last ? kLast : 0)) {}

  /// The same, from one lane, so that the compiler knows it for the same in all: products must not diverge.
  __device__ __forceinline__ GroupShare of_warp() const {
    GroupShare share;
    share.bits_ = __shfl_sync(kWholeWarp, bits_, 0);
    return share;
  }

  __device__ __forceinline__ bool computes() const { return (bits_ & kComputes) != 0; }
  /// Whether some of its rows do not see some of the tokens.
  __device__ __forceinline__ bool masked() const { return (bits_ & kMasked) != 0; }
  /// Whether the stage is the last of its task.
  __device__ __forceinline__ bool last() const { return (bits_ & kLast) != 0; }

 private:
  static constexpr std::uint32_t kComputes = 1;
  static constexpr std::uint32_t kMasked = 2;
  static constexpr std::uint32_t kLast = 4;
  std::uint32_t bits_;
};

/// Written with a stage's K. Bit i of `visible` of a half: its i-th query sees the token.
struct StageInfo {
  std::uint64_t visible[kGroups][kStageTokens];
  GroupShare shares[kGroups];
  std::int32_t task;  // its entry in SharedMemory::tasks; set for a task's first Q, too
};

// A task takes three slots or more (Q, K, V). Its info is read until the consumers have released them and merged: by
// then the tasks that fill the ring may be announced.
inline constexpr int kTasks = kSlots / 3 + 2;

struct SharedMemory {
  alignas(1024) std::byte slots[kSlots][kSlotBytes];
  StageInfo stages[kSlots];  // by the slot of the stage's K
  TaskInfo tasks[kTasks];
  // Of each producer warp: where its next slots' rows come from.
  const std::byte* k_rows[kProducerWarps][kStageTokens];
  const std::byte* v_rows[kProducerWarps][kStageTokens];
  std::int32_t popped[2];  // the tasks that the producer warps are at, and come to next
  RowState states[kGroups][kGroupRows];
  std::uint64_t full[kSlots];
  std::uint64_t empty[kSlots];
};

/// One thread, before all others use them. Full: each producer lane's copies, and its ordinary writes.
inline __device__ void init_barriers(SharedMemory& shared) {
  for (int slot = 0; slot < kSlots; ++slot) {
    barrier_init(shared_address(&shared.full[slot]), 32 + 1);
    barrier_init(shared_address(&shared.empty[slot]), kConsumerThreads);
  }
}

}  // namespace trunkline::cuda::sm90
