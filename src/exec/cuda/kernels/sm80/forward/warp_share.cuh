// Distributes the tokens of a stage over the consumer warps. The producers decide, as they have spare time: when the
// consumers decided, an H200 took 34 clocks a token of tiles of 64 rows instead of 28.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm80/forward/shared_memory.cuh"

namespace trunkline::cuda::sm80 {

/// The shares of one task. Lane i of a producer warp decides for consumer warp i; lanes from kConsumerWarps on are
/// idle.
template <int kTokens>
class WarpShares {
  static constexpr int kGroups = kTokens / 32;               // groups of 32 tokens, one token a lane
  static constexpr int kStageShift = kTokens == 64 ? 2 : 1;  // log2 of the stage's units of 16 tokens

 public:
  // Warps of a row group share a stage's tokens, at least 16 each. If a stage is too short for all of them, they take
  // turns.
  __device__ __forceinline__ void begin(int lane, int tile_rows, int queries, int group_size) {
    const int row_shift = __ffs(tile_rows / kWarpRows) - 1;
    const int row_group = lane & ((1 << row_shift) - 1);
    const int token_group = lane >> row_shift;
    const int share_shift = max(0, kStageShift + row_shift - 2);
    const int group_shift = kStageShift - share_shift;  // log2 of the number of warps that share a stage
    share_ = 1 << share_shift;
    begin_ = (token_group & ((1 << group_shift) - 1)) << share_shift;
    turn_ = token_group >> group_shift;
    turns_ = kConsumerWarps >> row_shift >> group_shift;
    const int first = row_group * kWarpRows / group_size;
    const int end = min((row_group * kWarpRows + kWarpRows - 1) / group_size + 1, queries);
    queries_ = first < end && lane < kConsumerWarps ? (~std::uint64_t{0} >> (64 - (end - first))) << first : 0;
  }

  /// Returns the warp's share: from the first to the last unit of 16 tokens with a token visible to its rows. It is
  /// rounded to 16, 32 or 64 tokens within the warp's part of the stage; masked tokens in it are zero in shared memory.
  /// \param visible masks of tokens lane, lane + 32, ... \param all mask with all queries of the task
  /// \param number index of the stage in its task
  __device__ __forceinline__ WarpShare of(const std::uint64_t (&visible)[kGroups], std::uint64_t all, int number,
                                          bool last) const {
    bool whole = true;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) whole = whole && __all_sync(kWholeWarp, visible[group] == all) != 0;
    const bool mine = queries_ != 0 && turn_ == (number & (turns_ - 1));
    if (whole) return {16 * begin_, mine ? share_ : 0, false, last};
    int first = begin_ + share_;
    int end = begin_;
    std::uint32_t partly = 0;  // a bit for each unit: some of its tokens are masked for some of the rows
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      std::uint64_t some = visible[group];
      std::uint64_t every = visible[group];
      for (int distance = 8; distance > 0; distance /= 2) {
        some |= __shfl_xor_sync(kWholeWarp, some, distance);
        every &= __shfl_xor_sync(kWholeWarp, every, distance);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = 2 * group + half;
        const bool any_visible = (__shfl_sync(kWholeWarp, some, 16 * half) & queries_) != 0;
        if ((__shfl_sync(kWholeWarp, every, 16 * half) & queries_) != queries_) partly |= 1u << at;
        if (!any_visible || at < begin_ || at >= begin_ + share_) continue;
        first = min(first, at);
        end = at + 1;
      }
    }
    if (end - first > 2) {
      first = begin_;
      end = begin_ + share_;
    }
    const int count = mine ? max(0, end - first) : 0;
    return {16 * first, count, ((partly >> first) & ((1u << count) - 1)) != 0, last};
  }

 private:
  int begin_ = 0;  // of the warp's part of a stage, in units of 16 tokens
  int share_ = 0;
  int turn_ = 0;
  int turns_ = 1;
  std::uint64_t queries_ = 0;  // the queries of the warp's rows
};

}  // namespace trunkline::cuda::sm80
