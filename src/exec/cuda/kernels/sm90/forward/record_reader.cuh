// Iteration of a loader or widener warp over all stage records and, in the same order, over all slots of the ring.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/ring.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/slot_position.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"

namespace trunkline::cuda::sm90 {

/// \tparam S Traits
template <class S>
class RecordReader {
  using SlotPosition = sm90::SlotPosition<S::kSlots>;

 public:
  __device__ __forceinline__ RecordReader(SharedMemory<S>& shared, int lane) : shared_(shared), lane_(lane) {}

  __device__ __forceinline__ SlotPosition position() const { return position_; }
  __device__ __forceinline__ int slot() const { return position_.slot(); }
  /// Returns the mbarrier of the slot's copies.
  __device__ __forceinline__ std::uint32_t copied() const { return barrier_of_copies(shared_, position_.slot()); }
  /// Waits until consumers have released the slot, and fewer than S::kSlotsOnTheirWay slots are in flight. All loaders
  /// arrive at each slot, so that a loader that waits for a slot's copies is never a round behind.
  __device__ __forceinline__ void wait_for_slot() const {
    const SlotPosition oldest = position_.back(S::kSlotsOnTheirWay);
    const std::uint32_t oldest_copied = barrier_of_copies(shared_, oldest.slot());
    const std::uint32_t empty = shared_address(&shared_.empty[position_.slot()]);
    // Both are tested at once, as each test takes 40 clocks.
    const bool arrived = barrier_try(oldest_copied, oldest.parity());
    const bool emptied = barrier_try(empty, position_.parity() ^ 1);
    if (arrived && emptied) return;
    barrier_wait(oldest_copied, oldest.parity());
    barrier_wait(empty, position_.parity() ^ 1);
  }
  /// Passes the present slot. \param arrivals made by lane 0, after the writes of all lanes
  __device__ __forceinline__ void pass_slot(int arrivals) {
    __syncwarp();
    if (lane_ == 0) barrier_arrive_times(copied(), static_cast<std::uint32_t>(arrivals));
    position_.advance();
  }
  /// Passes the present slot for a warp that is no loader.
  __device__ __forceinline__ void pass_without_arrival() { position_.advance(); }

  /// Waits for the next batch of records. \return whether there is one
  __device__ __forceinline__ bool next() const {
    barrier_wait(shared_address(&shared_.batch_full[batch_.slot()]), batch_.parity());
    return shared_.batch_tasks[batch_.slot()] != kNoTask;
  }
  __device__ __forceinline__ const TaskInfo& task() const { return shared_.tasks[shared_.batch_tasks[batch_.slot()]]; }
  __device__ __forceinline__ const StageRecord* batch() const { return shared_.records[batch_.slot()]; }
  /// Passes the present batch, after it was read.
  __device__ __forceinline__ void pass() {
    __syncwarp();  // orders the arrival after the reads of all lanes
    if (lane_ == 0) barrier_arrive(shared_address(&shared_.batch_empty[batch_.slot()]));
    batch_.advance();
  }

 private:
  SharedMemory<S>& shared_;
  int lane_;
  RingPosition<kBatches> batch_;
  SlotPosition position_;
};

}  // namespace trunkline::cuda::sm90
