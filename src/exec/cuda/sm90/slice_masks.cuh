// Who sees what of a stage's slices. Decided by the producers, who have time.
#pragma once

#include <cstdint>

#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/slice_walk.cuh"
#include "exec/cuda/sm90/task_queries.cuh"

namespace trunkline::cuda::sm90 {

/// Lane i < kSlices: of the i-th slice.
struct SliceView {
  std::uint32_t seen = 0;   // bit t: some query sees token t; only those are to be read
  std::uint32_t flags = 0;  // StageFlags
};

class SliceMasks {
 public:
  __device__ __forceinline__ SliceMasks(const ForwardArgs& args, const TaskQueries& queries, int lane)
      : args_(args), queries_(queries), lane_(lane) {}

  /// Writes the words of a stage's slices and tokens.
  __device__ __forceinline__ SliceView publish(const Slice& slice, StageInfo& info) const {
    // Slices that each query sees as wholes, or not at all, need one word; most are such.
    const bool whole =
        slice.count == kSliceTokens && slice.mask_stride == 0 && queries_.all_after(slice.position + kSliceTokens - 1);
    SliceView view;
    if (whole) view = publish_whole(slice, info);
    unsigned rest = __ballot_sync(kWholeWarp, lane_ < kSlices && !whole);
    for (; rest != 0; rest &= rest - 1) {
      const int from = __ffs(static_cast<int>(rest)) - 1;
      const SliceView other = publish_tokens(slice, from, info);
      if (lane_ == from) view = other;
    }
    return view;
  }

 private:
  // By its lane alone.
  __device__ __forceinline__ SliceView publish_whole(const Slice& slice, StageInfo& info) const {
    const QuerySet visible = queries_.by_half({{slice.mask_words.x, slice.mask_words.y}});
    SliceView view;
    view.seen = visible.empty() ? 0 : 0xFFFF;
#pragma unroll
    for (int half = 0; half < kGroups; ++half) {
      info.of_slice[half][lane_] = visible.words[half];
      if (visible.words[half] != 0) view.flags |= StageFlags::kSeen << half;
      if (visible.words[half] != queries_.every(half)) view.flags |= StageFlags::kMasked << half;
    }
    return view;
  }

  // By the whole warp: lane i has token i of the slice that lane `from` knows.
  __device__ __forceinline__ SliceView publish_tokens(const Slice& slice, int from, StageInfo& info) const {
    const std::int32_t position = __shfl_sync(kWholeWarp, slice.position, from) + lane_;
    const bool inside = lane_ < __shfl_sync(kWholeWarp, slice.count, from);
    const std::int32_t first_mask = __shfl_sync(kWholeWarp, slice.mask, from);
    const std::int32_t stride = __shfl_sync(kWholeWarp, slice.mask_stride, from);
    const QuerySet reached = queries_.after(inside ? position : -1);
    QuerySet visible{{0, 0}};
    if (inside) {
      const ulonglong2 mask = mask_at(args_.plan, first_mask < 0 ? -1 : first_mask + std::int64_t{stride} * lane_);
      visible = queries_.by_half(QuerySet{{mask.x, mask.y}} & reached);
    }
    SliceView view;
    view.flags = StageFlags::kByToken;
#pragma unroll
    for (int half = 0; half < kGroups; ++half) {
      if (lane_ < kSliceTokens) info.of_token[half][kSliceTokens * from + lane_] = visible.words[half];
      if (__any_sync(kWholeWarp, visible.words[half] != 0) != 0) view.flags |= StageFlags::kSeen << half;
      const bool partly = lane_ < kSliceTokens && visible.words[half] != queries_.every(half);
      if (__any_sync(kWholeWarp, partly) != 0) view.flags |= StageFlags::kMasked << half;
    }
    view.seen = __ballot_sync(kWholeWarp, !visible.empty());
    return view;
  }

  const ForwardArgs& args_;
  const TaskQueries& queries_;
  int lane_;
};

}  // namespace trunkline::cuda::sm90
