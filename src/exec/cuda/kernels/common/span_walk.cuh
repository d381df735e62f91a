// Iterates over the spans of an item, by one warp: the present span is known to every lane.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/page_offsets.cuh"
#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda {

class SpanWalk {
 public:
  __device__ __forceinline__ SpanWalk(const ForwardArgs& args, int lane)
      : args_(args), lane_(lane), page_offsets_(args.pages.page_size) {}

  __device__ __forceinline__ void begin(const TaskHeader& task) {
    span_ = task.spans.begin;
    end_ = task.spans.end;
    used_ = 0;
    present_ = task.first;
    load_window();
    prefetch_ids();
    if (present_.begin == present_.end) take_span();
  }

  __device__ __forceinline__ bool done() const { return span_ >= end_; }
  /// Returns the present span, equal in all lanes. \pre !done()
  __device__ __forceinline__ const ResolvedSpan& present() const { return present_; }
  /// Returns the number of passed tokens of the present span.
  __device__ __forceinline__ std::int32_t used() const { return used_; }
  __device__ __forceinline__ std::int32_t left() const { return present_.end - present_.begin - used_; }

  /// Passes up to `max_tokens` tokens of the present span. \return the number of passed tokens
  __device__ __forceinline__ int take(int max_tokens) {
    const std::int32_t rest = left();
    if (rest > max_tokens) {
      used_ += max_tokens;
      return max_tokens;
    }
    ++span_;
    used_ = 0;
    take_span();
    return rest;
  }

  /// Returns the page of a position, counted from the request's first page.
  __device__ __forceinline__ std::int32_t page_of(std::int32_t position) const {
    return page_offsets_.page_of(position);
  }

 private:
  // Prefetches the page ids of the first two stages, which takes as long as the read of the queries' limits.
  __device__ __forceinline__ void prefetch_ids() const {
    const std::int32_t position = present_.begin + 4 * lane_;
    if (position >= present_.end) return;
    prefetch_page_id(args_.pages, present_.ids_begin + page_of(position));
  }

  // Lane i holds span window_begin_ + i.
  __device__ __forceinline__ void load_window() {
    window_begin_ = span_;
    if (span_ + lane_ < end_) window_ = args_.step.spans[span_ + lane_];
  }

  // Finds the next span with tokens, from span_ on.
  __device__ __forceinline__ void take_span() {
    for (; span_ < end_; ++span_) {
      if (span_ - window_begin_ == 32) load_window();
      const int from = span_ - window_begin_;
      present_.begin = __shfl_sync(kWholeWarp, window_.begin, from);
      present_.end = __shfl_sync(kWholeWarp, window_.end, from);
      if (present_.begin == present_.end) continue;
      present_.ids_begin = __shfl_sync(kWholeWarp, window_.ids_begin, from);
      present_.mask = __shfl_sync(kWholeWarp, window_.mask, from);
      present_.mask_stride = __shfl_sync(kWholeWarp, window_.mask_stride, from);
      return;
    }
  }

  const ForwardArgs& args_;
  int lane_;
  PageOffsets page_offsets_;
  ResolvedSpan window_{};
  ResolvedSpan present_{};
  std::int32_t window_begin_ = 0;
  std::int32_t span_ = 0;
  std::int32_t end_ = 0;
  std::int32_t used_ = 0;
};

}  // namespace trunkline::cuda
