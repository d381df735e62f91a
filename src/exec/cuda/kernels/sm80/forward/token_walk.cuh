// Walks the spans of an item: which page, which place, and who sees it, 32 tokens at a time, by one warp.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/span_walk.cuh"

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
  __device__ __forceinline__ TokenWalk(const ForwardArgs& args, int lane)
      : args_(args), lane_(lane), spans_(args, lane) {}

  __device__ __forceinline__ void begin(const TaskHeader& task) { spans_.begin(task); }
  __device__ __forceinline__ bool done() const { return spans_.done(); }

  __device__ __forceinline__ void skip(int tokens) {
    while (tokens > 0 && !done()) tokens -= spans_.take(tokens);
  }

  /// The next up to 32 tokens, one a lane. \return how many there are.
  __device__ __forceinline__ int next(const QueryLimits& limits, LocatedToken& token) {
    int filled = 0;
    std::int32_t position = -1;
    std::int64_t entry = 0;
    std::int64_t mask = -1;
    while (filled < 32 && !done()) {
      const int first = spans_.used();
      const ResolvedSpan span = spans_.present();
      const int taken = spans_.take(32 - filled);
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
  __device__ __forceinline__ void locate(std::int32_t position, std::int64_t entry, std::int64_t mask,
                                         const QueryLimits& limits, LocatedToken& token) const {
    token = {};
    const std::uint64_t reached = limits.after(position);
    if (position < 0) return;
    const std::int32_t page = spans_.page_of(position);
    token.place = position - page * args_.pages.page_size;
    token.page = page_id(args_.pages, entry + page);
    token.mask = mask < 0 ? ~std::uint64_t{0} : args_.plan.masks[2 * mask];  // of two words: 64 queries at most
    token.reached = reached;
  }

  const ForwardArgs& args_;
  int lane_;
  SpanWalk spans_;
};

}  // namespace trunkline::cuda::sm80
