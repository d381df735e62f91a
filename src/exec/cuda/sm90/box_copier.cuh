// The warp that begins box copies: of each stage's K, then V, a lane for each slice. Without Q no work begins,
// and it must not come behind all that the rings of all SMs have room for, 25 MB. So the first box follows the copies
// of Q, and after two stages Q is waited for. Of `1,256/256,32` at 64/8 the wait spares 5 %, the order 2 %.
#pragma once

#include <cstdint>

#include "exec/cuda/sm90/cache_maps.hpp"
#include "exec/cuda/sm90/record_reader.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/tma.cuh"

namespace trunkline::cuda::sm90 {

class BoxCopier {
  static constexpr int kStagesBeforeQueries = 2;  // enough to keep the memory busy until Q is there
  static_assert(2 * kStagesBeforeQueries < kSlots);

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
      __syncwarp();
      if (stages_ == 0) named_barrier(kQueriesBarrier, kCopierThreads);
      if (stages_ == kStagesBeforeQueries) wait_for_first_queries();
      ++stages_;
      const StageFlags flags(record.flags);
      const SliceRecord& slice = record.slices[lane_ % kSlices];
      fill(maps_.k, lane_ < kSlices && slice.key_box(), task.head, slice);
      fill(maps_.v, lane_ < kSlices && !flags.by_row(lane_), task.head, slice);
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

  // \param mine: the lane's slice comes as a box
  __device__ __forceinline__ void fill(const CacheMap& map, bool mine, int head, const SliceRecord& slice) {
    const auto octet = static_cast<int>(slice.page * map.page_octets + slice.place / kOctetRows);
    const std::uint32_t full = records_.full();
    const std::uint32_t to = shared_address(records_.slot()) + static_cast<std::uint32_t>(lane_ * kSliceBytes);
    const unsigned boxes = __ballot_sync(kWholeWarp, mine);
    records_.wait_for_slot();
    if (lane_ == 0) barrier_expect(full, static_cast<std::uint32_t>(__popc(boxes) * kSliceBytes));
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
