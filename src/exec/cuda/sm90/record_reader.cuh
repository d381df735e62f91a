// What the warps that copy have in common: they go through all records and, in the same order, all slots of the ring.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/stage_record.cuh"
#include "exec/cuda/sm90/tma.cuh"

namespace trunkline::cuda::sm90 {

class RecordReader {
 public:
  __device__ __forceinline__ RecordReader(SharedMemory& shared, int lane) : shared_(shared), lane_(lane) {}

  __device__ __forceinline__ std::byte* slot() const { return shared_.slots[place_.slot()]; }
  __device__ __forceinline__ RingPlace<kSlots> place() const { return place_; }
  __device__ __forceinline__ int slot_number() const { return place_.slot(); }
  __device__ __forceinline__ std::uint32_t full() const { return shared_address(&shared_.full[place_.slot()]); }
  /// Until the consumers have released the slot.
  __device__ __forceinline__ void wait_for_slot() const {
    barrier_wait(shared_address(&shared_.empty[place_.slot()]), place_.parity() ^ 1);
  }
  /// \param arrivals for the slot at hand; of lane 0, after what all wrote
  __device__ __forceinline__ void pass_slot(int arrivals) {
    __syncwarp();
    if (lane_ == 0) barrier_arrive_times(full(), static_cast<std::uint32_t>(arrivals));
    place_.advance();
  }

  /// The next record, once it is written. It is read until `pass`.
  __device__ __forceinline__ const StageRecord& next() const {
    if (number_ == 0) barrier_wait(shared_address(&shared_.batch_full[batch_.slot()]), batch_.parity());
    return shared_.records[batch_.slot()][number_];
  }
  /// Of the record at hand: whether it is none, and there are no more.
  __device__ __forceinline__ bool at_end() const { return shared_.batch_tasks[batch_.slot()] == kNoTask; }
  __device__ __forceinline__ const TaskInfo& task() const { return shared_.tasks[shared_.batch_tasks[batch_.slot()]]; }
  __device__ __forceinline__ void pass(bool batch_end) {
    ++number_;
    if (!batch_end) return;
    __syncwarp();  // after the reads of all
    if (lane_ == 0) barrier_arrive(shared_address(&shared_.batch_empty[batch_.slot()]));
    batch_.advance();
    number_ = 0;
  }

 private:
  SharedMemory& shared_;
  int lane_;
  RingPlace<kBatches> batch_;
  RingPlace<kSlots> place_;
  int number_ = 0;  // of the record in its batch
};

}  // namespace trunkline::cuda::sm90
