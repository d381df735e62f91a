// The queries of a task: their halves, and which of them see a token.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/ptx.cuh"
#include "exec/cuda/sm90/config.hpp"

namespace trunkline::cuda::sm90 {

/// Some of an item's queries: bit i of both words together is the i-th; or a word for each half.
struct QuerySet {
  std::uint64_t words[2];

  __device__ __forceinline__ QuerySet operator&(const QuerySet& other) const {
    return {{words[0] & other.words[0], words[1] & other.words[1]}};
  }
  __device__ __forceinline__ bool empty() const { return (words[0] | words[1]) == 0; }
};

/// Lane i knows the limits of queries i, i + 32, ...
class TaskQueries {
  static constexpr int kOfLane = kMaxTileQueries / 32;

 public:
  /// \param first_half queries of the first half; 0 where both warpgroups have all of them
  __device__ __forceinline__ void begin(const ItemRow* rows, int queries, int first_half, int lane) {
    count_ = queries;
    first_half_ = first_half == 0 ? queries : first_half;
    halves_ = first_half == 0 ? 1 : 2;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      limit_[i] = INT32_MAX;
      if (lane + 32 * i < queries) limit_[i] = load_ahead(&rows[lane + 32 * i].limit);
    }
  }
  /// Once what else the task begins with is asked for.
  __device__ __forceinline__ void take_limits() {
    std::int32_t least_of_lane = limit_[0];
#pragma unroll
    for (int i = 1; i < kOfLane; ++i) least_of_lane = least(least_of_lane, limit_[i]);
    least_ = __reduce_min_sync(kWholeWarp, least_of_lane);
  }

  __device__ __forceinline__ int count() const {
    return count_;
  }
  __device__ __forceinline__ int halves() const {
    return halves_;
  }
  __device__ __forceinline__ int first_of(int half) const {
    return half == 0 ? 0 : first_half_;
  }
  __device__ __forceinline__ int count_of(int half) const {
    return half == 0 ? first_half_ : count_ - first_half_;
  }

  /// Whether all come after a position.
  __device__ __forceinline__ bool all_after(std::int32_t position) const {
    return position < least_;
  }
  /// Those that come after a position, which differs by lane.
  __device__ __forceinline__ QuerySet after(std::int32_t position) const {
    QuerySet reached{{~std::uint64_t{0}, ~std::uint64_t{0}}};
    if (__any_sync(kWholeWarp, position >= least_) == 0) return reached;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      for (int query = 32 * i; query < count_ && query < 32 * i + 32; ++query) {
        const std::int32_t bound = __shfl_sync(kWholeWarp, limit_[i], query % 32);
        if (position >= bound) reached.words[i / 2] &= ~(std::uint64_t{1} << (query % 64));
      }
    }
    return reached;
  }

  /// A word for each half, of which bit i is the half's i-th query.
  __device__ __forceinline__ QuerySet by_half(const QuerySet& set) const {
    if (halves_ == 1) return {{set.words[0] & every(0), 0}};
    const std::uint64_t second = first_half_ == kGroupRows
                                     ? set.words[1]
                                     : set.words[0] >> first_half_ | set.words[1] << (kGroupRows - first_half_);
    return {{set.words[0] & every(0), second & every(1)}};
  }
  /// All queries of a half.
  __device__ __forceinline__ std::uint64_t every(int half) const {
    const int count = count_of(half);
    return count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  }

 private:
  int count_;
  int first_half_;
  int halves_;
  std::int32_t least_;
  std::int32_t limit_[kOfLane];
};

}  // namespace trunkline::cuda::sm90
