// Writes stages to records, a lane for each slice, as the walk gives them.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/page_places.cuh"
#include "exec/cuda/sm90/slice_walk.cuh"
#include "exec/cuda/sm90/stage_record.cuh"
#include "exec/cuda/sm90/task_queries.cuh"

namespace trunkline::cuda::sm90 {

class StageWriter {
 public:
  /// \param boxes whether whole slices may come as boxes
  __device__ __forceinline__ StageWriter(const StepArgs& args, bool boxes, int lane)
      : args_(args), places_(args.pages.page_size), boxes_(boxes), lane_(lane) {}

  /// The next stages of a task, from the walk's next slices on. At least one, also of an item without tokens: consumers
  /// need not know of such items. \param batch its records \param first lane, and place among the slices of a batch,
  /// that is free \return records of the batch
  __device__ __forceinline__ int write(SliceWalk& slices, const QueryHalves& halves, int first,
                                       StageRecord* batch) const {
    Slice slice;
    const int filled = slices.take(first, slice);
    const int records = most((filled + kSlices - 1) / kSlices, first / kSlices + 1);
    if (lane_ >= first && lane_ < kSlices * records) {
      StageRecord& record = batch[lane_ / kSlices];
      std::uint32_t flags = write_slice(slice, halves, record, lane_ % kSlices);
      if (lane_ / kSlices == records - 1) {
        flags |= StageFlags::kBatchEnd;
        if (slices.done()) flags |= StageFlags::kLast;
      }
      record.flags[lane_ % kSlices] = static_cast<std::uint8_t>(flags);
    }
    return records;
  }

 private:
  // By its lane alone. \return its flags
  __device__ __forceinline__ std::uint32_t write_slice(const Slice& slice, const QueryHalves& halves,
                                                       StageRecord& record, int number) const {
    const bool limited = slice.mask_stride != 0 || slice.position + slice.count > slice.bound;
    const bool by_token = slice.count > 0 && (limited || slice.count < kSliceTokens);
    SliceRecord& written = record.slices[number];
    written.page = slice.ids_begin;
    if (holds_whole_slices(args_.pages.page_size) && slice.count > 0) {
      written.page = page_id(args_.pages, slice.ids_begin + places_.page_of(slice.position));
      written.place = places_.place_of(slice.position);
    }
    written.position = slice.position;
    written.mask = slice.mask;
    written.mask_stride = static_cast<std::int16_t>(slice.mask_stride);
    written.count = static_cast<std::int8_t>(slice.count);
    written.traits = limited ? SliceRecord::kLimited : 0;
    if (boxes_ && !slice.visible.empty() && slice.position % kSliceTokens == 0) written.traits |= SliceRecord::kKeyBox;
    record.kind = StageRecord::kStage;
    std::uint32_t flags = by_token ? StageFlags::kByToken : 0;
    if (by_token || !boxes_ || slice.visible.empty()) flags |= StageFlags::kByRow;
#pragma unroll
    for (int half = 0; half < kGroups; ++half) {
      const std::uint64_t visible = slice.visible.words[half];
      record.visible[half][0][number] = static_cast<std::uint32_t>(visible);
      record.visible[half][1][number] = static_cast<std::uint32_t>(visible >> 32);
      if (visible != 0) flags |= StageFlags::kSeen << half;
      if (by_token || visible != halves.every(half)) flags |= StageFlags::kMasked << half;
    }
    return flags;
  }

  const StepArgs& args_;
  PagePlaces places_;
  bool boxes_;
  int lane_;
};

}  // namespace trunkline::cuda::sm90
