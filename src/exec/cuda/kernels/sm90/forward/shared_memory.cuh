// Shared memory of a CTA: the ring of slots, the records of stages and tasks, and the mbarriers that hand them over.
//
// Invariants of the ring. A slot is full after kFullArrivals, or, if K and V have 8 bits, once each widener has
// followed these; a widener takes slots in order. It is empty once each consumer warp has released it. A parity tells a
// round from the one before and from no other, so no warp may be two rounds away from a slot that it waits for:
// - Every loader arrives at every slot, also without work, so none is a round behind.
// - A loader begins slot i when slot i - kSlotsOnTheirWay is full (RecordReader::wait_for_slot). So once slot i is
//   full, all slots up to i - kSlotsOnTheirWay are, and a consumer that has seen one full may wait for slots near it
//   (StageWalk::wait_for_near; Traits::kPassedAtMost says how near).
// - A consumer that passes stages of the other warpgroup without a wait may be rounds ahead. Before Q, and before a
//   stage behind many others, it waits until `begun` has come to the slot's round (StageWalk::wait_for).
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/ring.cuh"
#include "exec/cuda/kernels/common/row_state.hpp"
#include "exec/cuda/kernels/sm90/forward/config.hpp"
#include "exec/cuda/kernels/sm90/forward/slot_position.cuh"
#include "exec/cuda/kernels/sm90/forward/task_prologue.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"

namespace trunkline::cuda::sm90 {

/// A task, (item, KV head), for all warps but the scheduler.
struct TaskInfo : ItemInfo {
  static constexpr int kMaxQueries = kMaxTileQueries;

  std::int32_t number;  // in the queue
  std::int32_t head;

  /// Returns the query of a half's row.
  __device__ __forceinline__ int query_of(int half, int row) const { return row_query[kGroupRows * half + row]; }
  __device__ __forceinline__ int q_head_of(int half, int row, int group_size) const {
    return head * group_size + row - (query_of(half, row) - first_query[half]) * group_size;
  }
  __device__ __forceinline__ std::int32_t token_of(int query) const { return rows[query].token; }
  __device__ __forceinline__ std::int32_t& output_of(int query) { return rows[query].output; }
};

/// Masks by token: bit i of a half's two words is the half's i-th query, and its (32 + i)-th. Written with the stage's
/// K, if a slice is masked by token.
struct TokenMasks {
  alignas(8) std::uint32_t visible[kGroups][2][kStageTokens];
};

// A task has one batch of records or more, and is published with its first. Its entry is read until the consumers have
// merged its partials, while the batches of the next tasks wait.
inline constexpr int kTasks = kBatches + 1;
/// The entry of a batch behind the last task.
inline constexpr std::int32_t kNoTask = -1;

/// \tparam S Traits
template <class S>
struct SharedMemory {
  alignas(1024) std::byte slots[S::kSlots][S::kSlotBytes];
  TokenMasks tokens[S::kSlots];  // indexed by the slot of the stage's K
  alignas(16) StageRecord records[kBatches][kBatchStages];
  TaskInfo tasks[kTasks];
  std::int32_t batch_tasks[kBatches];  // index in `tasks` of each batch's task, or kNoTask
  std::int32_t popped[2];
  RowState states[kGroups][kGroupRows];
  float cap_factors[S::kWidens ? kConsumerWarps : 1];  // of each warp's task: its head's scale times that of the layer
  std::uint64_t full[S::kSlots];
  std::uint64_t copied[S::kWidens ? S::kSlots : 1];  // with wideners: copies are done, and they make the slot full
  std::uint64_t empty[S::kSlots];
  std::uint64_t batch_full[kBatches];
  std::uint64_t batch_empty[kBatches];
  std::uint32_t begun;  // SlotPosition::word of the last slot that the K loader found empty
};

/// First of the named barriers of the consumer warpgroups.
inline constexpr int kGroupBarrier = 4;
/// Named barrier of the loader warps: all have issued their copies of the first Q.
inline constexpr int kQueriesBarrier = 3;
inline constexpr int kLoaderThreads = 32 * (1 + kRowLoaders);

/// Arrivals that make a slot full: one of the K loader, and for each row loader one a lane, after its copies, and one
/// for its ordinary writes. Every loader arrives, also without work: a warp that waits for a slot without holding it
/// back could fall a round behind, which a parity does not show.
inline constexpr int kRowLoaderArrivals = 32 + 1;
inline constexpr int kFullArrivals = 1 + kRowLoaders * kRowLoaderArrivals;

/// Returns the mbarrier of a slot's copies: of kFullArrivals.
template <class S>
__device__ __forceinline__ std::uint32_t barrier_of_copies(SharedMemory<S>& shared, int slot) {
  return shared_address(S::kWidens ? &shared.copied[slot] : &shared.full[slot]);
}

/// Initialises the mbarriers of slots, by a whole warp before others use them.
template <class S>
__device__ __forceinline__ void init_slot_barriers(SharedMemory<S>& shared, int lane) {
  static_assert(S::kSlots <= 32);
  if (lane < S::kSlots) {
    barrier_init(barrier_of_copies(shared, lane), kFullArrivals);
    if constexpr (S::kWidens) barrier_init(shared_address(&shared.full[lane]), kWidenerWarps);
    barrier_init(shared_address(&shared.empty[lane]), kConsumerWarps);
    shared.begun = SlotPosition<S::kSlots>::kWordBeforeFirst;
    show_barriers_to_copies();
  }
}
/// Initialises the mbarriers of batches, by a whole warp before others use them.
template <class S>
__device__ __forceinline__ void init_batch_barriers(SharedMemory<S>& shared, int lane) {
  static_assert(kBatches <= 32);
  if (lane < kBatches) {
    barrier_init(shared_address(&shared.batch_full[lane]), 1);
    constexpr int kReaders = kConsumerWarps + 1 + kRowLoaders + (S::kWidens ? kWidenerWarps : 0);
    barrier_init(shared_address(&shared.batch_empty[lane]), kReaders);
    show_barriers_to_copies();
  }
}

}  // namespace trunkline::cuda::sm90
