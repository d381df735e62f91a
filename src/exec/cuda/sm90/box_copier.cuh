// The warp that begins box copies: of each stage's K, then V, a lane for each whole slice.
#pragma once

#include <cstdint>

#include "exec/cuda/sm90/cache_maps.hpp"
#include "exec/cuda/sm90/record_reader.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/tma.cuh"

namespace trunkline::cuda::sm90 {

class BoxCopier {
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
      records_.pass_slot(1);
    }
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
};

}  // namespace trunkline::cuda::sm90
