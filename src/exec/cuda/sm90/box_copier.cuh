// The warp that begins box copies: of each stage's K, then V, a lane for each whole slice. At first it begins those of
// two stages and waits for Q, without which no work begins and which came behind all that the ring has room for, 25 MB
// on all SMs: `1,256/256,32` at 64/8 takes 21.1 us, without the wait 22.1.
#pragma once

#include <cstdint>

#include "exec/cuda/sm90/cache_maps.hpp"
#include "exec/cuda/sm90/record_reader.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/tma.cuh"

namespace trunkline::cuda::sm90 {

class BoxCopier {
  static constexpr int kStagesBeforeQueries = 2;  // enough to keep the memory busy until Q is there

 public:
  __device__ __forceinline__ BoxCopier(const CacheMaps& maps, SharedMemory& shared, int lane)
      : maps_(maps), shared_(shared), lane_(lane), records_(shared, lane) {}

  __device__ __forceinline__ void run() {
    prefetch_map(maps_.k.tensor);
    prefetch_map(maps_.v.tensor);
    for (;;) {
      const StageRecord& record = records_.next();
      if (records_.at_end()) return;
      const TaskInfo& task = records_.task();
      if (record.kind == StageRecord::kQueries) {
        pass_slots(task.halves);
        records_.pass(false);
        continue;
      }
      if (stages_ == kStagesBeforeQueries) wait_for_first_queries();
      ++stages_;
      const StageFlags flags(record.flags);
      const bool mine = lane_ < kSlices && !flags.by_row(lane_);
      const SliceRecord& slice = record.slices[lane_ % kSlices];
      fill(maps_.k, flags, mine, task.head, slice);
      fill(maps_.v, flags, mine, task.head, slice);
      records_.pass(flags.batch_end());
    }
  }

 private:
  __device__ __forceinline__ void pass_slots(int slots) {
    for (int i = 0; i < slots; ++i) {
      records_.wait_for_slot();
      queries_ = records_.place();
      records_.pass_slot(1);
    }
  }

  // Of the task at hand. Their slot is filled anew only with this warp's help, so it cannot be lapped while it waits.
  __device__ __forceinline__ void wait_for_first_queries() const {
    barrier_wait(shared_address(&shared_.full[queries_.slot()]), queries_.parity());
  }

  __device__ __forceinline__ void fill(const CacheMap& map, StageFlags flags, bool mine, int head,
                                       const SliceRecord& slice) {
    const auto octet = static_cast<int>(slice.page * map.page_octets + slice.place / kOctetRows);
    const std::uint32_t full = records_.full();
    const std::uint32_t to = shared_address(records_.slot()) + static_cast<std::uint32_t>(lane_ * kSliceBytes);
    records_.wait_for_slot();
    if (lane_ == 0) barrier_expect(full, static_cast<std::uint32_t>(flags.boxes() * kSliceBytes));
    __syncwarp();
    if (mine) copy_box(to, map.tensor, head, octet, full);
    records_.pass_slot(1);
  }

  const CacheMaps& maps_;
  SharedMemory& shared_;
  int lane_;
  RecordReader records_;
  RingPlace<kSlots> queries_;  // the last slot of Q
  std::uint32_t stages_ = 0;   // begun, of all tasks
};

}  // namespace trunkline::cuda::sm90
