// Walks the spans of an item: which page, which place, and who sees it, 32 tokens at a time, by one warp.
#pragma once

#include <cstdint>

#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/ptx.cuh"

namespace trunkline::cuda::sm80 {

/// A lane's token. The id and the mask are loads that may still be under way: a stage's are begun while the one before
/// it is handed over.
struct LocatedToken {
  std::int64_t page = 0;
  std::int32_t place = 0;
  std::uint64_t mask = 0;     // queries that the span's mask lets see it
  std::uint64_t reached = 0;  // queries whose limit lies after it
};

/// The queries of an item: lane i holds the limits of queries i and i + 32.
struct QueryLimits {
  std::int32_t limit[2] = {INT32_MAX, INT32_MAX};
  std::int32_t least = INT32_MAX;
  std::int32_t count = 0;

  __device__ __forceinline__ std::uint64_t all() const {
    return count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  }
  /// Queries that come after a position, which differs by lane.
  __device__ __forceinline__ std::uint64_t after(std::int32_t position) const {
    std::uint64_t reached = all();
    if (__any_sync(kWholeWarp, position >= least) == 0) return reached;
    for (int query = 0; query < count; ++query) {
      const std::int32_t bound = __shfl_sync(kWholeWarp, query < 32 ? limit[0] : limit[1], query % 32);
      if (position >= bound) reached &= ~(std::uint64_t{1} << query);
    }
    return reached;
  }
};

class TokenWalk {
 public:
  __device__ __forceinline__ TokenWalk(const ForwardArgs& args, int lane) : args_(args), lane_(lane) {
    const std::int32_t page_size = args.pages.page_size;
    page_shift_ = (page_size & (page_size - 1)) == 0 ? __ffs(page_size) - 1 : -1;
  }

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

  __device__ __forceinline__ void skip(int tokens) {
    while (tokens > 0 && !done()) tokens -= take(tokens);
  }

  /// The next up to 32 tokens, one a lane. \return how many there are.
  __device__ __forceinline__ int next(const QueryLimits& limits, LocatedToken& token) {
    int filled = 0;
    std::int32_t position = -1;
    std::int64_t entry = 0;
    std::int64_t mask = -1;
    while (filled < 32 && !done()) {
      const int first = used_;
      const ResolvedSpan span = present_;
      const int taken = take(32 - filled);
      if (lane_ >= filled && lane_ < filled + taken) {
        const std::int32_t offset = first + lane_ - filled;
        position = span.begin + offset;
        entry = span.ids_begin;
        mask = span.mask < 0 ? -1 : span.mask + std::int64_t{span.mask_stride} * offset;
      }
      filled += taken;
    }
    locate(position, entry, mask, limits, token);
    return filled;
  }

 private:
  // Ids of the first two stages; the queries' limits, which come first, take as long.
  __device__ __forceinline__ void prefetch_ids() const {
    const std::int32_t position = present_.begin + 4 * lane_;
    if (position >= present_.end) return;
    const std::int32_t page = page_shift_ >= 0 ? position >> page_shift_ : position / args_.pages.page_size;
    const std::int64_t entry = present_.ids_begin + page;
    prefetch_to_cache(static_cast<const std::byte*>(args_.pages.ids) + (entry << (args_.pages.wide_ids != 0 ? 3 : 2)));
  }

  // Lane i holds span window_begin_ + i.
  __device__ __forceinline__ void load_window() {
    window_begin_ = span_;
    if (span_ + lane_ < end_) window_ = args_.step.spans[span_ + lane_];
  }

  // Passes up to so many tokens of the present span. \return how many
  __device__ __forceinline__ int take(int most) {
    const std::int32_t left = present_.end - present_.begin - used_;
    if (left > most) {
      used_ += most;
      return most;
    }
    ++span_;
    used_ = 0;
    take_span();
    return left;
  }

  // The next span with tokens, from span_ on.
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

  __device__ __forceinline__ void locate(std::int32_t position, std::int64_t entry, std::int64_t mask,
                                         const QueryLimits& limits, LocatedToken& token) const {
    token = {};
    const std::uint64_t reached = limits.after(position);
    if (position < 0) return;
    const std::int32_t page = page_shift_ >= 0 ? position >> page_shift_ : position / args_.pages.page_size;
    entry += page;
    token.place = position - page * args_.pages.page_size;
    token.page = args_.pages.wide_ids != 0 ? static_cast<const std::int64_t*>(args_.pages.ids)[entry]
                                           : static_cast<const std::int32_t*>(args_.pages.ids)[entry];
    token.mask = mask < 0 ? ~std::uint64_t{0} : args_.plan.masks[2 * mask];  // of two words: 64 queries at most
    token.reached = reached;
  }

  const ForwardArgs& args_;
  int lane_;
  int page_shift_;  // log2 of the page size; -1 where it is no power of two. A division takes 100 clocks
  ResolvedSpan window_{};
  ResolvedSpan present_{};  // the same in all lanes
  std::int32_t window_begin_ = 0;
  std::int32_t span_ = 0;
  std::int32_t end_ = 0;
  std::int32_t used_ = 0;  // tokens of the span that were handed out
};

}  // namespace trunkline::cuda::sm80
