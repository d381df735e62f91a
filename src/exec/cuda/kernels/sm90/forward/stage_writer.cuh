// Writes stages to records, a lane for each slice, as the walk gives them.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/page_offsets.cuh"
#include "exec/cuda/kernels/sm90/forward/slice_walk.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/task_queries.cuh"

namespace trunkline::cuda::sm90 {

class StageWriter {
 public:
  /// \param tma_tiles whether tokens may come by TMA tiles
  __device__ __forceinline__ StageWriter(const StepArgs& args, bool tma_tiles, int lane)
      : args_(args),
        places_(args.pages.page_size),
        tma_tile_tokens_(tma_tiles ? kOctetRows * octets_of_tma_tile(args.pages.page_size) : 0),
        lane_(lane) {}

  /// The next stages of a task, from the walk's next slices on. At least one, also of an item without tokens: consumers
  /// need not know of such items. \param batch its records \param first lane, and place among the slices of a batch,
  /// that is free \return records of the batch
  __device__ __forceinline__ int write(SliceWalk& slices, const QueryHalves& halves, int first,
                                       StageRecord* batch) const {
    Slice slice;
    const int filled = slices.take(first, slice);
    const int records = most((filled + kSlices - 1) / kSlices, first / kSlices + 1);
    const bool last = slices.done() && lane_ / kSlices == records - 1;
    std::uint32_t flags = 0;
    if (lane_ >= first && lane_ < kSlices * records) {
      StageRecord& record = batch[lane_ / kSlices];
      flags = write_slice(slice, halves, last, record, lane_ % kSlices);
      record.flags[lane_ % kSlices] = static_cast<std::uint8_t>(flags);
    }
    write_batch(flags, records, slices.done(), batch[0]);
    return records;
  }

 private:
  // What warps that compute look up once for all of the batch. \param flags of the lane's slice
  __device__ __forceinline__ void write_batch(std::uint32_t flags, int records, bool ends_task,
                                              StageRecord& batch) const {
    static_assert(kGroups == 2);
    const std::uint32_t by_generic_proxy =
        of_stages(flags, StageFlags::kByRow | StageFlags::kHasEnd) * StageTraits::kByHand;
    std::uint32_t seen[kGroups] = {of_stages(flags, StageFlags::kVisible), of_stages(flags, StageFlags::kVisible << 1)};
    // Somebody must wait for each stage and release its slots. One that nobody sees is masked and by row: its K is
    // hidden, and its V zero.
    const std::uint32_t all = StageTraits::kEach >> (32 - StageTraits::kBits * records);
    seen[0] |= all & ~seen[1];
#pragma unroll
    for (int half = 0; half < kGroups; ++half) {
      const std::uint32_t masked = of_stages(flags, StageFlags::kMasked << half) * StageTraits::kMasked;
      const std::uint32_t alone = (seen[half] & ~seen[1 - half]) * StageTraits::kAlone;
      if (lane_ == 0) batch.batch_traits[half] = by_generic_proxy | masked | alone | seen[half] * StageTraits::kVisible;
    }
    if (lane_ != 0) return;
    batch.batch_records = static_cast<std::uint8_t>(records);
    batch.batch_ends_task = ends_task ? 1 : 0;
  }

  // Bit 4 i: some slice of the i-th stage has one of the flags that are asked for.
  static __device__ __forceinline__ std::uint32_t of_stages(std::uint32_t flags, std::uint32_t asked) {
    static_assert(kSlices == StageTraits::kBits);
    const std::uint32_t slices = __ballot_sync(kWholeWarp, (flags & asked) != 0);
    const std::uint32_t pairs = slices | slices >> 1;
    return (pairs | pairs >> 2) & StageTraits::kEach;
  }

  // By its lane alone. \param last whether it is of the task's last stage \return its flags
  __device__ __forceinline__ std::uint32_t write_slice(const Slice& slice, const QueryHalves& halves, bool last,
                                                       StageRecord& record, int number) const {
    const bool limited = slice.mask_stride != 0 || slice.position + slice.count > slice.bound;
    const bool tma_tiles = tma_tile_tokens_ > 0;
    const bool seen = !slice.visible.empty();
    const bool key_tma_tile = tma_tiles && seen && (slice.position & (tma_tile_tokens_ - 1)) == 0;
    // Not in a task's last stage, which by rows holds nobody up: there nothing hides the time that clearing takes, and
    // with it ten batches of short tasks took 2 % longer.
    const bool whole = slice.count == kSliceTokens;
    const bool cleared = key_tma_tile && !whole && !limited && !last;
    const bool by_token = seen && !cleared && (limited || !whole);
    const bool value_tma_tile = key_tma_tile && !by_token;
    SliceRecord& written = record.slices[number];
    if (octets_of_tma_tile(args_.pages.page_size) == 0) {
      written.ids_begin = slice.ids_begin;
    } else if (slice.count > 0) {
      write_place(slice, written);
    }
    written.position = slice.position;
    written.mask = slice.mask;
    written.mask_stride = static_cast<std::int16_t>(slice.mask_stride);
    written.count = static_cast<std::int8_t>(slice.count);
    written.traits = limited ? SliceRecord::kLimited : 0;
    if (key_tma_tile) written.traits |= SliceRecord::kKeyTmaTile;
    if (value_tma_tile) written.traits |= SliceRecord::kValueTmaTile;
    record.kind = StageRecord::kStage;
    record.lengths[number] = static_cast<std::uint8_t>(cleared ? slice.count : kSliceTokens);
    std::uint32_t flags = by_token ? StageFlags::kByToken : 0;
    if (!value_tma_tile) flags |= StageFlags::kByRow;
    if (cleared) flags |= StageFlags::kHasEnd;
#pragma unroll
    for (int half = 0; half < kGroups; ++half) {
      const std::uint64_t visible = slice.visible.words[half];
      record.visible[half][0][number] = static_cast<std::uint32_t>(visible);
      record.visible[half][1][number] = static_cast<std::uint32_t>(visible >> 32);
      if (visible != 0) flags |= StageFlags::kVisible << half;
      if (by_token || cleared || visible != halves.every(half)) flags |= StageFlags::kMasked << half;
    }
    return flags;
  }

  __device__ __forceinline__ void write_place(const Slice& slice, SliceRecord& written) const {
    const std::int32_t page_size = args_.pages.page_size;
    const std::int32_t page = places_.page_of(slice.position);
    written.place = slice.position - page * page_size;
    // Side by side; the second is the first again where the slice ends in that page.
    const std::int32_t last = written.place + slice.count > page_size ? page + 1 : page;
    const std::int64_t first_id = page_id(args_.pages, slice.ids_begin + page);
    const std::int64_t last_id = page_id(args_.pages, slice.ids_begin + last);
    written.pages[0] = static_cast<std::int32_t>(first_id);
    written.pages[1] = static_cast<std::int32_t>(last_id);
  }

  const StepArgs& args_;
  PageOffsets places_;
  int tma_tile_tokens_;  // 0: there are no TMA tiles
  int lane_;
};

}  // namespace trunkline::cuda::sm90
