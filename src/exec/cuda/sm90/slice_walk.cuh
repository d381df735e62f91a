// Walks the spans of an item in slices of up to 16 tokens of one span, four to a stage.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/common/span_walk.cuh"
#include "exec/cuda/sm90/config.hpp"

namespace trunkline::cuda::sm90 {

/// Lane i < kSlices has a stage's i-th; the other lanes have none. Page id and mask are loads that may still be under
/// way: a stage's are begun while the warp's stage before it is copied.
struct Slice {
  std::int64_t ids_begin = 0;
  std::int64_t page = 0;  // where pages hold whole slices
  std::int32_t position = 0;
  std::int32_t count = 0;  // tokens
  std::int32_t mask = -1;  // of the first token
  std::int32_t mask_stride = 0;
  ulonglong2 mask_words{~0ull, ~0ull};  // of `mask`
};

/// Bit i: the item's i-th query sees what the mask is of; all where there is none.
__device__ __forceinline__ ulonglong2 mask_at(const DevicePlan& plan, std::int64_t mask) {
  if (mask < 0) return {~0ull, ~0ull};
  return *reinterpret_cast<const ulonglong2*>(plan.masks + 2 * mask);
}

class SliceWalk {
 public:
  __device__ __forceinline__ SliceWalk(const ForwardArgs& args, int lane)
      : args_(args), lane_(lane), spans_(args, lane), whole_slices_(args.pages.page_size % kSliceTokens == 0) {}

  __device__ __forceinline__ void begin(const TaskHeader& task) { spans_.begin(task); }
  __device__ __forceinline__ bool done() const { return spans_.done(); }
  /// Whether each slice lies in one page: else its tokens are to be looked up one by one.
  __device__ __forceinline__ bool whole_slices() const { return whole_slices_; }

  /// Passes a number of stages, or those that are left; one at least. \return how many
  __device__ __forceinline__ int skip_stages(int stages) {
    if (in_whole_slices(stages)) {
      spans_.take(stages * kStageTokens);
      return stages;
    }
    int passed = 0;
    do {
#pragma unroll 1
      for (int i = 0; i < kSlices && !done(); ++i) spans_.take(tokens_of_slice());
      ++passed;
    } while (passed < stages && !done());
    return passed;
  }

  __device__ __forceinline__ Slice next_stage() {
    Slice slice;
    if (in_whole_slices(1)) {
      if (lane_ < kSlices) {
        note(spans_.used() + kSliceTokens * lane_, slice);
        slice.count = kSliceTokens;
      }
      spans_.take(kStageTokens);
    } else {
#pragma unroll 1
      for (int i = 0; i < kSlices && !done(); ++i) {
        if (lane_ == i) note(spans_.used(), slice);
        const int taken = spans_.take(tokens_of_slice());
        if (lane_ == i) slice.count = taken;
      }
    }
    if (slice.count > 0) {
      if (whole_slices_) slice.page = page_id(args_.pages, entry_of(slice.ids_begin, slice.position));
      slice.mask_words = mask_at(args_.plan, slice.mask);
    }
    return slice;
  }

  /// The entry of the page table that has a position of a request.
  __device__ __forceinline__ std::int64_t entry_of(std::int64_t ids_begin, std::int32_t position) const {
    return ids_begin + spans_.page_of(position);
  }
  __device__ __forceinline__ std::int32_t place_of(std::int32_t position) const {
    return position - spans_.page_of(position) * args_.pages.page_size;
  }

 private:
  // Whether the next stages are of the present span alone, and of whole slices.
  __device__ __forceinline__ bool in_whole_slices(int stages) const {
    return !done() && spans_.left() >= stages * kStageTokens && tokens_of_slice() == kSliceTokens;
  }

  // A slice from the used-th token of the present span on.
  __device__ __forceinline__ void note(std::int32_t used, Slice& slice) const {
    const ResolvedSpan& span = spans_.present();
    slice.ids_begin = span.ids_begin;
    slice.position = span.begin + used;
    slice.mask = span.mask < 0 ? -1 : span.mask + span.mask_stride * used;
    slice.mask_stride = span.mask_stride;
  }

  // At most: the span may have fewer left.
  __device__ __forceinline__ int tokens_of_slice() const {
    return whole_slices_ ? kSliceTokens - (spans_.present().begin + spans_.used()) % kSliceTokens : kSliceTokens;
  }

  const ForwardArgs& args_;
  int lane_;
  SpanWalk spans_;
  bool whole_slices_;
};

}  // namespace trunkline::cuda::sm90
