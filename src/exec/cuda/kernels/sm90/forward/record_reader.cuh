// How warps that copy go through all records and, in the same order, all slots of the ring.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/ring.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/slot_position.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"

namespace trunkline::cuda::sm90 {

class RecordReader {
 public:
  __device__ __forceinline__ RecordReader(SharedMemory& shared, int lane) : shared_(shared), lane_(lane) {}

  __device__ __forceinline__ SlotPosition place() const { return place_; }
  __device__ __forceinline__ int slot() const { return place_.slot(); }
  __device__ __forceinline__ std::uint32_t full() const { return shared_address(&shared_.full[place_.slot()]); }
  /// Until consumers have released the slot, and few enough are on their way. All that copy arrive at each slot, so
  /// that none is lapped where it waits for one to be full.
  __device__ __forceinline__ void wait_for_slot() const {
    const SlotPosition oldest = place_.back(kSlotsOnTheirWay);
    const std::uint32_t oldest_full = shared_address(&shared_.full[oldest.slot()]);
    const std::uint32_t empty = shared_address(&shared_.empty[place_.slot()]);
    // Both are asked at once, as each answers after 40 clocks.
    const bool arrived = barrier_try(oldest_full, oldest.parity());
    const bool emptied = barrier_try(empty, place_.parity() ^ 1);
    if (arrived && emptied) return;
    barrier_wait(oldest_full, oldest.parity());
    barrier_wait(empty, place_.parity() ^ 1);
  }
  /// \param arrivals for the slot at hand; of lane 0, after what all wrote
  __device__ __forceinline__ void pass_slot(int arrivals) {
    __syncwarp();
    if (lane_ == 0) barrier_arrive_times(full(), static_cast<std::uint32_t>(arrivals));
    place_.advance();
  }

  /// Waits for the next batch of records. \return whether there is one
  __device__ __forceinline__ bool next() const {
    barrier_wait(shared_address(&shared_.batch_full[batch_.slot()]), batch_.parity());
    return shared_.batch_tasks[batch_.slot()] != kNoTask;
  }
  __device__ __forceinline__ const TaskInfo& task() const { return shared_.tasks[shared_.batch_tasks[batch_.slot()]]; }
  __device__ __forceinline__ const StageRecord* batch() const { return shared_.records[batch_.slot()]; }
  /// After it was read.
  __device__ __forceinline__ void pass() {
    __syncwarp();  // after the reads of all
    if (lane_ == 0) barrier_arrive(shared_address(&shared_.batch_empty[batch_.slot()]));
    batch_.advance();
  }

 private:
  SharedMemory& shared_;
  int lane_;
  RingPosition<kBatches> batch_;
  SlotPosition place_;
};

}  // namespace trunkline::cuda::sm90
