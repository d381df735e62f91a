// Walks the spans of an item: which page, which place, and who sees it, 32 tokens at a time, by one warp.
#pragma once

#include <cstdint>

#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/ptx.cuh"

namespace trunkline::cuda {

/// Some of an item's queries: bit i of all words together is the i-th.
template <int kWords>
struct QuerySet {
  std::uint64_t words[kWords];

  static __device__ __forceinline__ QuerySet all() {
    QuerySet set;
#pragma unroll
    for (std::uint64_t& word : set.words) word = ~std::uint64_t{0};
    return set;
  }
  static __device__ __forceinline__ QuerySet none() {
    QuerySet set;
#pragma unroll
    for (std::uint64_t& word : set.words) word = 0;
    return set;
  }
  static __device__ __forceinline__ QuerySet first(int count) {
    QuerySet set;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int here = count - 64 * i;
      set.words[i] = here >= 64 ? ~std::uint64_t{0} : here <= 0 ? 0 : (std::uint64_t{1} << here) - 1;
    }
    return set;
  }
};

/// A lane's token. The id and the mask are loads that may still be under way: a stage's are begun while the one before
/// it is handed over.
template <int kWords>
struct LocatedToken {
  std::int64_t page = 0;
  std::int32_t place = 0;
  QuerySet<kWords> mask = QuerySet<kWords>::none();     // queries that the span's mask lets see it
  QuerySet<kWords> reached = QuerySet<kWords>::none();  // queries whose limit lies after it
};

/// The queries of an item: lane i holds the limits of queries i, i + 32, ...
template <int kWords>
struct QueryLimits {
  std::int32_t limit[2 * kWords];
  std::int32_t least = INT32_MAX;
  std::int32_t count = 0;

  __device__ __forceinline__ QuerySet<kWords> all() const { return QuerySet<kWords>::first(count); }
  /// Queries that come after a position, which differs by lane.
  __device__ __forceinline__ QuerySet<kWords> after(std::int32_t position) const {
    QuerySet<kWords> reached = all();
    if (__any_sync(kWholeWarp, position >= least) == 0) return reached;
#pragma unroll
    for (int i = 0; i < 2 * kWords; ++i) {
      for (int query = 32 * i; query < count && query < 32 * i + 32; ++query) {
        const std::int32_t bound = __shfl_sync(kWholeWarp, limit[i], query % 32);
        if (position >= bound) reached.words[i / 2] &= ~(std::uint64_t{1} << (query % 64));
      }
    }
    return reached;
  }
};

/// \tparam kWords of 64 queries, that an item's masks need
template <int kWords>
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
  __device__ __forceinline__ int next(const QueryLimits<kWords>& limits, LocatedToken<kWords>& token) {
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
  // Masks have two words each.
  __device__ __forceinline__ QuerySet<kWords> load_mask(std::int64_t mask) const {
    QuerySet<kWords> set;
#pragma unroll
    for (int i = 0; i < kWords; ++i) set.words[i] = args_.plan.masks[2 * mask + i];
    return set;
  }

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
                                         const QueryLimits<kWords>& limits, LocatedToken<kWords>& token) const {
    token = {};
    const QuerySet<kWords> reached = limits.after(position);
    if (position < 0) return;
    const std::int32_t page = page_shift_ >= 0 ? position >> page_shift_ : position / args_.pages.page_size;
    entry += page;
    token.place = position - page * args_.pages.page_size;
    token.page = args_.pages.wide_ids != 0 ? static_cast<const std::int64_t*>(args_.pages.ids)[entry]
                                           : static_cast<const std::int32_t*>(args_.pages.ids)[entry];
    token.mask = mask < 0 ? QuerySet<kWords>::all() : load_mask(mask);
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

}  // namespace trunkline::cuda
