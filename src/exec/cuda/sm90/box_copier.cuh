// The warp that begins box copies: of each stage's K, then V, a lane for each box. Without Q no work begins, and it
// must not come behind all that the rings of all SMs have room for beside it, 24 MB. So the first box follows the
// copies of Q, and after two stages Q is waited for. Of `1,256/256,32` at 64/8 the wait spares 5 %, the order 2 %.
#pragma once

#include <cstdint>

#include "exec/cuda/sm90/cache_maps.hpp"
#include "exec/cuda/sm90/record_reader.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/stage_record.cuh"
#include "exec/cuda/sm90/tma.cuh"

namespace trunkline::cuda::sm90 {

class BoxCopier {
  static constexpr int kStagesBeforeQueries = 2;  // enough to keep the memory busy until Q is there
  static_assert(2 * kStagesBeforeQueries < kSlots);

 public:
  __device__ __forceinline__ BoxCopier(const CacheMaps& maps, std::int32_t page_size, SharedMemory& shared, int lane)
      : maps_(maps), page_size_(page_size), shared_(shared), lane_(lane), records_(shared, lane) {}

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
      const int number = slice_of_lane();
      const SliceRecord& slice = record.slices[number % kSlices];
      // The end of a ragged slice may have no page. Without branches, so that what is read comes side by side.
      const bool mine = (number < kSlices) & (token_of_lane() < slice.count);
      const SliceRecord::TokenPlace place = slice.place_of(token_of_lane(), page_size_);
      fill(maps_.k, mine & slice.key_box(), task.head, place);
      fill(maps_.v, mine & !flags.by_row(number % kSlices), task.head, place);
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

  // Where boxes are octets, lanes 2 i and 2 i + 1 bring slice i.
  __device__ __forceinline__ int slice_of_lane() const { return maps_.octets == kSliceOctets ? lane_ : lane_ / 2; }
  // The first that the lane brings of its slice.
  __device__ __forceinline__ int token_of_lane() const {
    return maps_.octets == kSliceOctets ? 0 : lane_ % 2 * kOctetRows;
  }

  // \param mine: the lane brings a box \param place of its first token
  __device__ __forceinline__ void fill(const CacheMap& map, bool mine, int head, SliceRecord::TokenPlace place) {
    const auto octet = static_cast<int>(place.page * map.page_octets + place.place / kOctetRows);
    const std::uint32_t full = records_.full();
    const int box_bytes = maps_.octets * kOctetBytes;
    const std::uint32_t to = shared_address(records_.slot()) + static_cast<std::uint32_t>(lane_ * box_bytes);
    const unsigned boxes = __ballot_sync(kWholeWarp, mine);
    records_.wait_for_slot();
    if (lane_ == 0) barrier_expect(full, static_cast<std::uint32_t>(__popc(boxes) * box_bytes));
    __syncwarp();
    if (mine) copy_box(to, map.tensor, head, octet, full);
    records_.pass_slot(1);
  }

  const CacheMaps& maps_;
  std::int32_t page_size_;
  SharedMemory& shared_;
  int lane_;
  RecordReader records_;
  RingPlace<kSlots> queries_;  // the last slot of Q
  std::uint32_t stages_ = 0;   // begun, of all tasks
};

}  // namespace trunkline::cuda::sm90
