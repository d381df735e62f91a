// Iterates over the spans of an item in slices of up to 16 tokens of one span, a lane for each slice: some 300
// instructions for eight stages, where iteration span by span takes a warp 600 clocks a stage.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/page_offsets.cuh"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm90/forward/config.hpp"
#include "exec/cuda/kernels/sm90/forward/task_queries.cuh"

namespace trunkline::cuda::sm90 {

struct Slice {
  std::int64_t ids_begin = 0;
  std::int32_t position = 0;
  std::int32_t count = 0;  // tokens; 0: no slice
  std::int32_t mask = -1;  // mask of the first token; -1: none
  std::int32_t mask_stride = 0;
  std::int32_t bound = 0;  // tokens before this position are visible to all queries of `visible`
  // The queries to which it is visible, a word for each half; with masks by token, those to which some token may be.
  QuerySet visible{{0, 0}};
};

class SliceWalk {
  static constexpr int kWindow = 32;  // spans, a lane each

 public:
  __device__ __forceinline__ SliceWalk(const StepArgs& args, int lane)
      : args_(args),
        lane_(lane),
        page_offsets_(args.pages.page_size),
        aligned_to_(alignment_of_tma_tile(args.pages.page_size)) {}

  /// Prefetches the spans and page ids of a task behind its first slices, side by side. \param passed number of first
  /// slices
  __device__ __forceinline__ void prefetch(const TaskHeader& task, int passed) const {
    if (task.spans.begin + lane_ < task.spans.end) prefetch_to_cache(args_.step.spans + task.spans.begin + lane_);
    const std::int32_t position = task.first.begin + kSliceTokens * (passed + lane_);
    if (position >= task.first.end) return;
    prefetch_page_id(args_.pages, task.first.ids_begin + page_offsets_.page_of(position));
  }

  /// Begins a task. \param rows the item's queries \param min_of_all minimum of their limits
  __device__ __forceinline__ void begin(const TaskHeader& task, const QueryHalves& halves, const ItemRow* rows,
                                        std::int32_t min_of_all) {
    halves_ = halves;
    rows_ = rows;
    min_ = min_of_all;
    first_ = task.first;
    span_ = task.spans.begin;
    begin_ = span_;
    end_ = task.spans.end;
    slices_ = 0;
    used_ = 0;
  }

  /// Whether there are no more slices. Valid after a `take`.
  __device__ __forceinline__ bool done() const { return used_ == slices_; }

  /// Skips the next `slices` slices, which must exist.
  __device__ __forceinline__ void pass(int slices) {
    while (slices > 0) {
      if (used_ == slices_) accept_window();
      const int passed = min(slices, slices_ - used_);
      used_ += passed;
      slices -= passed;
    }
  }

  /// Gives the next slices to lanes from `first` on. \return the lane behind the last slice
  __device__ __forceinline__ int take(int first, Slice& slice) {
    int filled = first;
    for (;;) {
      if (used_ == slices_) {
        if (span_ == end_) return filled;
        accept_window();
        continue;
      }
      if (filled == 32) return filled;
      const int taken = min(32 - filled, slices_ - used_);
      const bool mine = lane_ >= filled && lane_ < filled + taken;
      locate(mine ? used_ + lane_ - filled : used_, mine, slice);
      filled += taken;
      used_ += taken;
    }
  }

 private:
  // Reads the next window of spans. If the first batch needs the first span only, it takes the span from the header.
  __device__ __forceinline__ void accept_window() {
    const bool fills_batch = first_.end - first_.begin >= kBatchStages * kStageTokens;
    ResolvedSpan span{};
    int spans = 1;
    if (span_ == begin_ && (fills_batch || end_ - span_ == 1)) {
      if (lane_ == 0) span = first_;
    } else {
      spans = min(end_ - span_, kWindow);
      if (lane_ < spans) span = args_.step.spans[span_ + lane_];
    }
    accept(span, spans);
  }

  // Takes a window of spans, one a lane; lanes behind the last have an empty span.
  __device__ __forceinline__ void accept(const ResolvedSpan& span, int spans) {
    window_ = span;
    const std::int32_t first = span.begin - offset_of(span.begin);
    int slices = 0;
    if (span.end > span.begin) slices = (span.end - first + kSliceTokens - 1) / kSliceTokens;
    int through = slices;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(kWholeWarp, through, static_cast<unsigned>(step));
      if (lane_ >= step) through += other;
    }
    before_ = through - slices;
    slices_ = __shfl_sync(kWholeWarp, through, 31);
    used_ = 0;
    span_ += spans;
    one_span_ = spans == 1;
    apply_mask(span, slices);
  }

  __device__ __forceinline__ void apply_mask(const ResolvedSpan& span, int slices) {
    QuerySet mask = kAllQueries;
    if (slices > 0 && span.mask_stride == 0) mask = mask_at(args_.plan, span.mask);
    visible_ = halves_.by_half(mask);
    bound_ = INT32_MAX;
    if (slices > 0 && span.end > min_) {
      bound_ = min_limit(halves_.within(mask), rows_);
    }
  }

  // Returns the j-th slice of the window, to lanes with `mine`. Called by all lanes.
  __device__ __forceinline__ void locate(int j, bool mine, Slice& slice) const {
    int from = 0;  // the last span whose first slice is at or before it
    if (!one_span_) {
#pragma unroll
      for (int step = kWindow / 2; step > 0; step /= 2) {
        if (__shfl_sync(kWholeWarp, before_, from + step) <= j) from += step;
      }
    }
    const std::int32_t begin = __shfl_sync(kWholeWarp, window_.begin, from);
    const std::int32_t end = __shfl_sync(kWholeWarp, window_.end, from);
    const std::int32_t mask = __shfl_sync(kWholeWarp, window_.mask, from);
    const std::int32_t stride = __shfl_sync(kWholeWarp, window_.mask_stride, from);
    const std::int32_t bound = __shfl_sync(kWholeWarp, bound_, from);
    const auto ids_begin = __shfl_sync(kWholeWarp, static_cast<long long>(window_.ids_begin), from);
    const int number = j - __shfl_sync(kWholeWarp, before_, from);
    const QuerySet visible{
        {__shfl_sync(kWholeWarp, visible_.words[0], from), __shfl_sync(kWholeWarp, visible_.words[1], from)}};
    if (!mine) return;
    const std::int32_t aligned = begin - offset_of(begin) + kSliceTokens * number;
    slice.position = max(aligned, begin);
    slice.count = min(aligned + kSliceTokens, end) - slice.position;
    slice.ids_begin = ids_begin;
    slice.mask = mask < 0 ? -1 : mask + stride * (slice.position - begin);
    slice.mask_stride = stride;
    slice.bound = bound;
    slice.visible = visible;
  }

  // Returns the offset of a position in a slice that is aligned to TMA tiles.
  __device__ __forceinline__ std::int32_t offset_of(std::int32_t position) const {
    return position & (aligned_to_ - 1);
  }

  const StepArgs& args_;
  int lane_;
  PageOffsets page_offsets_;
  std::int32_t aligned_to_;
  QueryHalves halves_;
  const ItemRow* rows_ = nullptr;
  std::int32_t min_ = 0;
  ResolvedSpan first_{};
  std::int32_t begin_ = 0;  // first of the task's spans
  std::int32_t span_ = 0;   // first span behind the window
  std::int32_t end_ = 0;
  ResolvedSpan window_{};
  QuerySet visible_{};
  std::int32_t bound_ = 0;
  int before_ = 0;  // slices of the window's spans before the lane's
  int slices_ = 0;  // slices of the window
  int used_ = 0;
  bool one_span_ = false;
};

}  // namespace trunkline::cuda::sm90
