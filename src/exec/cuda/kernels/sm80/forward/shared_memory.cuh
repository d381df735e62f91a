// Shared memory of a CTA: the ring of slots, the descriptions of stages and tasks, and the mbarriers of the ring.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/ring.cuh"
#include "exec/cuda/kernels/common/row_state.hpp"
#include "exec/cuda/kernels/sm80/forward/config.hpp"

namespace trunkline::cuda::sm80 {

/// A task, (item, KV head), for the consumers. They read it again at each use, to save registers.
struct TaskInfo {
  static constexpr int kMaxQueries = kMaxTileQueries;

  std::int32_t head;
  std::int32_t queries;
  std::int32_t rows;                     // queries * group size; 0: no more tasks
  std::int32_t row_shift;                // log2 of the number of the tile's groups of kWarpRows
  std::int32_t number;                   // in the queue
  std::int32_t has_partials;             // 1: some of its queries write partials
  std::uint8_t row_query[kMaxTileRows];  // query of each row; rows behind the last have the last query
  std::int32_t token[kMaxTileQueries];   // row in Q and O of each query
  std::int32_t output[kMaxTileQueries];  // its partial slot, or kDirect

  __device__ __forceinline__ std::int32_t token_of(int query) const { return token[query]; }
  __device__ __forceinline__ std::int32_t& output_of(int query) { return output[query]; }
};

/// The tokens of a stage that a consumer warp computes. One word, which each warp reads at the start of each stage.
class WarpShare {
 public:
  WarpShare() = default;
  __device__ __forceinline__ WarpShare(int first, int count, bool masked, bool last)
      : bits_(static_cast<std::uint32_t>(first | count << 8) | (masked ? kMasked : 0) | (last ? kLast : 0)) {}

  __device__ __forceinline__ int first() const { return static_cast<int>(bits_ & 0xFF); }  // first token, in the stage
  __device__ __forceinline__ int count() const { return static_cast<int>(bits_ >> 8 & 0xFF); }  // in units of 16 tokens
  /// Whether some of the tokens are masked for some of the warp's rows.
  __device__ __forceinline__ bool masked() const { return (bits_ & kMasked) != 0; }
  /// Whether the stage is the last of its task.
  __device__ __forceinline__ bool last() const { return (bits_ & kLast) != 0; }

 private:
  static constexpr std::uint32_t kMasked = 1u << 16;
  static constexpr std::uint32_t kLast = 1u << 17;
  std::uint32_t bits_;
};

/// The masks of a stage's tokens, a bit for each query, and the warps' shares. Written with the stage's K.
template <int kTokens>
struct StageInfo {
  std::uint64_t visible[kTokens];
  WarpShare shares[kConsumerWarps];
  std::int32_t task;  // index in SharedMemory::tasks; also set for a task's first Q
};

/// \tparam kRingSlots ring_slots() or compact_ring_slots() of the head dimension
template <int kHeadDim, int kRingSlots>
struct Sizes {
  static constexpr int kDim = kHeadDim;
  static constexpr int kTokens = stage_tokens(kDim);
  static constexpr int kRowBytes = 2 * kDim;  // bytes of a token's K or V, or of a row of Q
  static constexpr int kSlotBytes = kTokens * kRowBytes;
  static constexpr int kSlots = kRingSlots;
  // A task takes three slots or more (Q, K, V). Its entry is read until all consumer warps have released the slots and
  // merged: by then the tasks that fill the ring may be published.
  static constexpr int kTasks = kSlots / 3 + 2;
  static_assert(kTasks >= 1 + (kSlots + 2) / 3);
  static constexpr int kChunks = kRowBytes / 16;  // 16-byte chunks of a row
};

/// A slot holds kTokens rows of Q, K or V. Swizzle: chunk c of row r lies at c ^ (r % 8), so that the eight rows of an
/// 8 x 8 matrix are in different banks.
template <class Size>
struct SharedMemory {
  alignas(1024) std::byte slots[Size::kSlots][Size::kSlotBytes];
  StageInfo<Size::kTokens> stages[Size::kSlots];  // indexed by the slot of the stage's K
  TaskInfo tasks[Size::kTasks];
  // Source addresses of the rows of each producer warp's next slots.
  const std::byte* k_rows[kProducerWarps][Size::kTokens];
  const std::byte* v_rows[kProducerWarps][Size::kTokens];
  std::int32_t popped[2];  // the present and the next task of the producer warps
  RowState states[kConsumerWarps][kWarpRows];
  std::uint64_t full[Size::kSlots];
  std::uint64_t empty[Size::kSlots];
  std::int32_t last_nan_task;  // head of the CTA's list in ForwardArgs::nan_tasks; -1: empty
};

/// Initialises the mbarriers, by one thread before others use them. A slot is full after an arrival for the copies of
/// each producer lane, and one for ordinary writes.
template <class Size>
__device__ void init_barriers(SharedMemory<Size>& shared) {
  shared.last_nan_task = -1;
  for (int slot = 0; slot < Size::kSlots; ++slot) {
    barrier_init(shared_address(&shared.full[slot]), 32 + 1);
    barrier_init(shared_address(&shared.empty[slot]), 32 * kConsumerWarps);
  }
}

}  // namespace trunkline::cuda::sm80
