// What the warps that copy have in common: they go through all records, and know the ring's slots by them.
#pragma once

#include <cstdint>

#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/stage_record.cuh"

namespace trunkline::cuda::sm90 {

class RecordReader {
 public:
  __device__ __forceinline__ RecordReader(SharedMemory& shared, int lane) : shared_(shared), lane_(lane) {}

  /// The next one, once it is written. It is read until `pass`.
  __device__ __forceinline__ const StageRecord& next() const {
    if (at_.number() == 0) barrier_wait(shared_address(&shared_.batch_full[at_.batch()]), at_.parity());
    return shared_.records[at_.batch()][at_.number()];
  }
  __device__ __forceinline__ void pass(bool batch_end) {
    if (batch_end) {
      __syncwarp();  // after the reads of all
      if (lane_ == 0) barrier_arrive(shared_address(&shared_.batch_empty[at_.batch()]));
    }
    at_.advance(batch_end);
  }

 private:
  SharedMemory& shared_;
  int lane_;
  RecordPlace at_;
};

}  // namespace trunkline::cuda::sm90
