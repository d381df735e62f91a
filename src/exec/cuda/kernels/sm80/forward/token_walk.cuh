// Iterates over the tokens of an item, 32 at a time, by one warp: page, page offset and mask of each token.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/span_walk.cuh"

namespace trunkline::cuda::sm80 {

/// A lane's token. The loads of page id and mask may still be in flight: they are issued while the stage before is
/// handed over.
struct LocatedToken {
  std::int64_t page = 0;
  std::int32_t page_offset = 0;
  std::uint64_t mask = 0;     // queries to which the span's mask makes it visible
  std::uint64_t reached = 0;  // queries whose limit is behind it
};

/// The queries of an item: lane i holds the limits of queries i and i + 32.
struct QueryLimits {
  std::int32_t limit[2] = {INT32_MAX, INT32_MAX};
  std::int32_t min_limit = INT32_MAX;
  std::int32_t count = 0;

  __device__ __forceinline__ std::uint64_t all() const {
    return count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  }
  /// Returns the queries that come after a position, which may differ by lane.
  __device__ __forceinline__ std::uint64_t after(std::int32_t position) const {
    std::uint64_t reached = all();
    if (__any_sync(kWholeWarp, position >= min_limit) == 0) return reached;
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

  /// Takes the next tokens, up to 32, one a lane. \return the number of tokens
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
    token.page_offset = position - page * args_.pages.page_size;
    token.page = page_id(args_.pages, entry + page);
    token.mask = mask < 0 ? ~std::uint64_t{0}
                          : args_.plan.masks[2 * mask];  // the first of two words: an item has at most 64 queries
    token.reached = reached;
  }

  const ForwardArgs& args_;
  int lane_;
  SpanWalk spans_;
};

}  // namespace trunkline::cuda::sm80
