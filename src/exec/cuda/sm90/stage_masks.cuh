// Which half of a tile sees what of a stage, and which warpgroup computes it. Decided by the producers, who have time.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/common/token_walk.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"

namespace trunkline::cuda::sm90 {

inline constexpr int kParts = kStageTokens / 32;  // of a stage: one token a lane

/// Of one task.
class StageMasks {
 public:
  StageMasks() = default;
  /// \param first_half queries of the first half; 0 where both warpgroups have all of them
  __device__ __forceinline__ StageMasks(int queries, int first_half)
      : queries_(queries), first_half_(first_half == 0 ? queries : first_half), halves_(first_half == 0 ? 1 : 2) {}

  __device__ __forceinline__ int halves() const { return halves_; }
  __device__ __forceinline__ int first_query(int half) const { return half == 0 ? 0 : first_half_; }
  __device__ __forceinline__ int queries(int half) const { return half == 0 ? first_half_ : queries_ - first_half_; }

  /// The queries of both sets, a word for each half: bit i is the half's i-th.
  __device__ __forceinline__ QuerySet<2> by_half(const QuerySet<2>& mask, const QuerySet<2>& reached) const {
    const std::uint64_t low = mask.words[0] & reached.words[0];
    const std::uint64_t high = mask.words[1] & reached.words[1];
    if (halves_ == 1 || first_half_ == kGroupRows) return {{low, high}};
    return {{low & every(0), low >> first_half_ | high << (kGroupRows - first_half_)}};
  }

  /// \param visible of tokens lane, lane + 32: by_half() \param number of the stage in its task
  __device__ __forceinline__ GroupShare share(const QuerySet<2> (&visible)[kParts], int group, int number,
                                              bool last) const {
    const int half = halves_ == 2 ? group : 0;
    const std::uint64_t all = every(half);
    bool some = false;
    bool whole = true;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const std::uint64_t word = half == 0 ? visible[part].words[0] : visible[part].words[1];
      some = some || __any_sync(kWholeWarp, word != 0) != 0;
      whole = whole && __all_sync(kWholeWarp, word == all) != 0;
    }
    const bool mine = halves_ == 2 || number % kGroups == group;
    return {mine && some, !whole, last};
  }

 private:
  // At most 64: a half has no more rows.
  __device__ __forceinline__ std::uint64_t every(int half) const { return QuerySet<1>::first(queries(half)).words[0]; }

  int queries_;
  int first_half_;
  int halves_;
};

}  // namespace trunkline::cuda::sm90
