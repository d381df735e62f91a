// Writes stage records from the slices of a SliceWalk, a lane for each slice.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/page_offsets.cuh"
#include "exec/cuda/kernels/sm90/forward/slice_walk.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/task_queries.cuh"

namespace trunkline::cuda::sm90 {

/// \tparam kRuns whether TMA copies runs (copies_runs)
template <bool kRuns>
class StageWriter {
 public:
  /// \param tma_tiles whether TMA is used
  __device__ __forceinline__ StageWriter(const StepArgs& args, bool tma_tiles, int lane)
      : args_(args),
        page_offsets_(args.pages.page_size),
        tma_tile_tokens_(!tma_tiles ? 0
                         : kRuns    ? 1
                                    : alignment_of_tma_tile(args.pages.page_size)),
        lane_(lane) {}

  /// Writes the next stages of a task, at least one: an item without tokens then needs no special case in the
  /// consumers. \param batch records of the batch \param first the first free slice of the batch, and its lane \return
  /// number of records in the batch
  __device__ __forceinline__ int write(SliceWalk& slices, const QueryHalves& halves, int first,
                                       StageRecord* batch) const {
    Slice slice;
    const int filled = slices.take(first, slice);
    const int records = max((filled + kSlices - 1) / kSlices, first / kSlices + 1);
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
  // Writes the members that consumers read once a batch. \param flags flags of the lane's slice
  __device__ __forceinline__ void write_batch(std::uint32_t flags, int records, bool ends_task,
                                              StageRecord& batch) const {
    static_assert(kGroups == 2);
    const std::uint32_t by_generic_proxy =
        of_stages(flags, StageFlags::kByRow | StageFlags::kHasEnd) * StageTraits::kGenericProxy;
    std::uint32_t visible[kGroups] = {of_stages(flags, StageFlags::kVisible),
                                      of_stages(flags, StageFlags::kVisible << 1)};
    // Some warpgroup must wait for each stage and release its slots: half 0 gets those that are masked for all rows.
    // Their slices are masked and copied by rows, so that V is zero.
    const std::uint32_t all = StageTraits::kEach >> (32 - StageTraits::kBits * records);
    visible[0] |= all & ~visible[1];
#pragma unroll
    for (int half = 0; half < kGroups; ++half) {
      const std::uint32_t masked = of_stages(flags, StageFlags::kMasked << half) * StageTraits::kMasked;
      const std::uint32_t alone = (visible[half] & ~visible[1 - half]) * StageTraits::kAlone;
      if (lane_ == 0)
        batch.batch_traits[half] = by_generic_proxy | masked | alone | visible[half] * StageTraits::kVisible;
    }
    if (lane_ != 0) return;
    batch.batch_records = static_cast<std::uint8_t>(records);
    batch.batch_ends_task = ends_task ? 1 : 0;
  }

  // Returns a word whose bit 4 i is set if some slice of the i-th stage has one of the flags `asked`.
  static __device__ __forceinline__ std::uint32_t of_stages(std::uint32_t flags, std::uint32_t asked) {
    static_assert(kSlices == StageTraits::kBits);
    const std::uint32_t slices = __ballot_sync(kWholeWarp, (flags & asked) != 0);
    const std::uint32_t pairs = slices | slices >> 1;
    return (pairs | pairs >> 2) & StageTraits::kEach;
  }

  // Writes a slice, by its lane. \param last whether the stage is the task's last \return flags of the slice
  __device__ __forceinline__ std::uint32_t write_slice(const Slice& slice, const QueryHalves& halves, bool last,
                                                       StageRecord& record, int number) const {
    const bool limited = slice.mask_stride != 0 || slice.position + slice.count > slice.bound;
    const bool is_visible = !slice.visible.empty();
    SliceRecord& written = record.slices[number];
    const bool located = write_location(slice, written);
    const bool key_tma_tile =
        tma_tile_tokens_ > 0 && located && is_visible && (slice.position & (tma_tile_tokens_ - 1)) == 0;
    // A task's last stage is not cleared but copied by rows, which delays no later stage: nothing hides the time of
    // clearing there, and with it ten batches of short tasks took 2 % longer.
    const bool whole = slice.count == kSliceTokens;
    const bool cleared = key_tma_tile && !whole && !limited && !last;
    const bool by_token = is_visible && !cleared && (limited || !whole);
    const bool value_tma_tile = key_tma_tile && !by_token;
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

  // Writes where the slice is in the cache. \return whether TMA may copy it, if it is aligned
  __device__ __forceinline__ bool write_location(const Slice& slice, SliceRecord& written) const {
    if (slice.count == 0) return false;
    if constexpr (kRuns) {
      if (tma_tile_tokens_ > 0 && slice.count == kSliceTokens && write_runs(slice, written)) return true;
      written.ids_begin = slice.ids_begin;
      return false;
    } else {
      write_pages(slice, written);
      return true;
    }
  }
  __device__ __forceinline__ void write_pages(const Slice& slice, SliceRecord& written) const {
    const std::int32_t page_size = args_.pages.page_size;
    const std::int32_t page = page_offsets_.page_of(slice.position);
    written.page_offset = slice.position - page * page_size;
    // Both ids are read side by side; the second is the first again if the slice ends in that page.
    const std::int32_t last = written.page_offset + slice.count > page_size ? page + 1 : page;
    const std::int64_t first_id = page_id(args_.pages, slice.ids_begin + page);
    const std::int64_t last_id = page_id(args_.pages, slice.ids_begin + last);
    written.pages[0] = static_cast<std::int32_t>(first_id);
    written.pages[1] = static_cast<std::int32_t>(last_id);
  }
  // \return whether the tokens of both octets lie one behind another
  __device__ __forceinline__ bool write_runs(const Slice& slice, SliceRecord& written) const {
    bool runs = true;
#pragma unroll 1  // the places of one octet in registers are enough
    for (int octet = 0; octet < kSliceOctets; ++octet) {
      std::int32_t places[kOctetRows];
#pragma unroll
      for (int i = 0; i < kOctetRows; ++i) {
        places[i] = place_of(slice.ids_begin, slice.position + kOctetRows * octet + i);
      }
#pragma unroll
      for (int i = 1; i < kOctetRows; ++i) runs = runs && places[i] == places[0] + i;
      written.runs[octet] = places[0];
    }
    return runs;
  }
  // Returns the place of a token in a cache whose pages lie one behind another, in tokens.
  __device__ __forceinline__ std::int32_t place_of(std::int64_t ids_begin, std::int32_t position) const {
    const std::int32_t page_size = args_.pages.page_size;
    const std::int32_t page = page_offsets_.page_of(position);
    return static_cast<std::int32_t>(page_id(args_.pages, ids_begin + page)) * page_size + position - page * page_size;
  }

  const StepArgs& args_;
  PageOffsets page_offsets_;
  int tma_tile_tokens_;  // alignment of TMA tiles; 0: TMA is not used
  int lane_;
};

}  // namespace trunkline::cuda::sm90
