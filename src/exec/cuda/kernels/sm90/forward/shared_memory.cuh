// What the warps of a CTA share: the ring of tiles, what is known of them, and the barriers that hand them over.
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

/// One (item, KV head), as all warps but the walking one see it.
struct TaskInfo : ItemInfo {
  static constexpr int kMostQueries = kMaxTileQueries;

  std::int32_t number;  // in the queue
  std::int32_t head;

  /// Of a half's row.
  __device__ __forceinline__ int query_of(int half, int row) const { return row_query[kGroupRows * half + row]; }
  __device__ __forceinline__ int q_head_of(int half, int row, int group_size) const {
    return head * group_size + row - (query_of(half, row) - first_query[half]) * group_size;
  }
  __device__ __forceinline__ std::int32_t token_of(int query) const { return rows[query].token; }
  __device__ __forceinline__ std::int32_t& output_of(int query) { return rows[query].output; }
};

/// Bit i of a half's two words for a token: its i-th query, or (32 + i)-th, sees it. Written with the stage's K, where
/// slices are by token.
struct TokenMasks {
  alignas(8) std::uint32_t visible[kGroups][2][kStageTokens];
};

// A task is a batch of records or more, and is announced with its first. Its info is read until the consumers have
// merged its partials: they may be at it while the next tasks' batches wait.
inline constexpr int kTasks = kBatches + 1;
/// There are no more.
inline constexpr std::int32_t kNoTask = -1;

struct SharedMemory {
  alignas(1024) std::byte slots[kSlots][kSlotBytes];
  TokenMasks tokens[kSlots];  // by the slot of the stage's K
  alignas(16) StageRecord records[kBatches][kBatchStages];
  TaskInfo tasks[kTasks];
  std::int32_t batch_tasks[kBatches];  // of each batch the entry of its task, or kNoTask
  std::int32_t popped[2];
  RowState states[kGroups][kGroupRows];
  std::uint64_t full[kSlots];
  std::uint64_t empty[kSlots];
  std::uint64_t batch_full[kBatches];
  std::uint64_t batch_empty[kBatches];
  std::uint32_t begun;  // SlotPosition::word of the last slot that was empty for the warp that begins K's TMA tiles
};

/// Named barriers of a consumer warpgroup each.
inline constexpr int kGroupBarrier = 4;
/// Named barrier of the warps that copy: once all have begun their copies of the first Q.
inline constexpr int kQueriesBarrier = 3;
inline constexpr int kLoaderThreads = 32 * (1 + kRowLoaders);

/// Arrivals that make a slot full: that of the warp that begins K's TMA tiles, and of each row loader those of its
/// lanes, once their copies are there, and one of what it wrote besides. All arrive, whether they have something to do
/// or not: who waits for a slot without holding it up may be lapped by its rounds, of which a parity does not tell.
inline constexpr int kRowLoaderArrivals = 32 + 1;
inline constexpr int kFullArrivals = 1 + kRowLoaders * kRowLoaderArrivals;

/// By a whole warp, before others use them.
__device__ __forceinline__ void init_slot_barriers(SharedMemory& shared, int lane) {
  static_assert(kSlots <= 32);
  if (lane < kSlots) {
    barrier_init(shared_address(&shared.full[lane]), kFullArrivals);
    barrier_init(shared_address(&shared.empty[lane]), kConsumerWarps);
    shared.begun = SlotPosition::kWordBeforeFirst;
    show_barriers_to_copies();
  }
}
/// The same.
__device__ __forceinline__ void init_batch_barriers(SharedMemory& shared, int lane) {
  static_assert(kBatches <= 32);
  if (lane < kBatches) {
    barrier_init(shared_address(&shared.batch_full[lane]), 1);
    barrier_init(shared_address(&shared.batch_empty[lane]), kConsumerWarps + 1 + kRowLoaders);
    show_barriers_to_copies();
  }
}

}  // namespace trunkline::cuda::sm90
