// A warp's copies of its slices of K and V, issued in order, ahead of its computation.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/page_offsets.cuh"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm90/single_query/args.hpp"
#include "exec/cuda/kernels/sm90/single_query/shared_memory.cuh"

namespace trunkline::cuda::single_query {

/// The slices first, first + kWarps, ... before `end`, of a sequence of `limit` tokens.
struct WarpShare {
  std::int32_t first;
  std::int32_t end;
  std::int32_t limit;
};

/// \tparam kWhole whether each slice lies in one page, as pages are a multiple of 16 tokens; it halves the instructions
template <bool kWhole>
class SliceCopies {
  static constexpr int kChunks = kRowBytes / 16;
  static constexpr int kRowsAtOnce = 32 / kChunks;
  static constexpr int kCopies = kSliceTokens / kRowsAtOnce;
  static_assert(kRowsAtOnce == 2);

 public:
  /// \param ids_begin first entry of the sequence's row in the page table
  __device__ __forceinline__ SliceCopies(const SingleQueryArgs& args, Stage* stages, std::int64_t ids_begin,
                                         std::int32_t head, const WarpShare& share, int lane)
      : args_(args),
        k_(static_cast<const std::byte*>(args.layer.k) + 2 * head * args.layer.k_strides.head + 16 * (lane % kChunks)),
        v_(static_cast<const std::byte*>(args.layer.v) + 2 * head * args.layer.v_strides.head + 16 * (lane % kChunks)),
        ids_begin_(ids_begin),
        share_(share),
        next_(share.first),
        lane_(lane),
        stages_(shared_address(stages) + row() * kRowBytes + ((lane % kChunks ^ row()) << 4)) {
    page_ = PageOffsets(args.pages.page_size).page_of(token_of(next_));
    page_offset_ = token_of(next_) - page_ * args.pages.page_size;
#pragma unroll
    for (int i = 0; i < kStages; ++i) locations_[i] = locate(next_ + i * kWarps);
  }

  /// Issues the copies of the next slice, if there is one, to the next stage. Tokens behind the end of the sequence are
  /// zero: the memory there may be NaN, and 0 x NaN is NaN.
  __device__ __forceinline__ void begin_next() {
    if (next_ < share_.end) copy(next_);
    commit_copies();
    next_ += kWarps;
    stage_ = stage_ == kStages - 1 ? 0 : stage_ + 1;
#pragma unroll
    for (int i = 0; i + 1 < kStages; ++i) locations_[i] = locations_[i + 1];
    locations_[kStages - 1] = locate(next_ + (kStages - 1) * kWarps);
  }

 private:
  // The page and page offset of a token.
  struct TokenLocation {
    std::int64_t page;
    std::int32_t page_offset;
  };

  // Returns the lane's row of the two rows that a warp copies at once.
  __device__ __forceinline__ int row() const {
    return lane_ / kChunks;
  }

  // Returns the token whose location the lane looks up: the first token of the slice if it lies in one page, else one
  // token a lane.
  __device__ __forceinline__ std::int32_t token_of(std::int32_t slice) const {
    return slice * kSliceTokens + (kWhole ? 0 : lane_ % kSliceTokens);
  }

  // Looks up the location of that token. Called for consecutive slices of the warp: the location advances by additions,
  // as divisions by the page size are slow.
  __device__ __forceinline__ TokenLocation locate(std::int32_t slice) {
    TokenLocation location{0, page_offset_};
    if (slice < share_.end && token_of(slice) < share_.limit) location.page = page_id(args_.pages, ids_begin_ + page_);
    page_ += args_.pages_step;
    page_offset_ += args_.page_offset_step;
    if (page_offset_ >= args_.pages.page_size) {
      page_offset_ -= args_.pages.page_size;
      ++page_;
    }
    return location;
  }

  // Returns the offset of a token in bytes.
  __device__ __forceinline__ static long long offset_of(const TokenLocation& location, const CacheStrides& strides) {
    return 2 * (location.page * strides.page + location.page_offset * strides.token);
  }

  __device__ __forceinline__ void copy(std::int32_t slice) const {
    const std::int32_t tokens = share_.limit - slice * kSliceTokens;
    const std::uint32_t stage = stages_ + stage_ * static_cast<std::uint32_t>(sizeof(Stage));
    copy_rows(k_, offset_of(locations_[0], args_.layer.k_strides), args_.layer.k_strides.token, tokens, stage);
    copy_rows(v_, offset_of(locations_[0], args_.layer.v_strides), args_.layer.v_strides.token, tokens,
              stage + kSliceBytes);
  }

  __device__ __forceinline__ void copy_rows(const std::byte* cache, long long offset, std::int64_t token_stride,
                                            std::int32_t tokens, std::uint32_t to) const {
    const std::byte* from = cache + offset + (kWhole ? 2 * row() * token_stride : 0);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int token = kRowsAtOnce * i + row();
      if constexpr (!kWhole) from = cache + __shfl_sync(kWholeWarp, offset, token);
      // Swizzle: chunk c of row r lies at c ^ (r % 8), where the lane's row is the lowest bit of r.
      const std::uint32_t at =
          (to ^ static_cast<std::uint32_t>(kRowsAtOnce * i % 8 << 4)) + kRowsAtOnce * i * kRowBytes;
      copy_async_or_zero(at, from, token < tokens);
      if constexpr (kWhole) from += 2 * kRowsAtOnce * token_stride;
    }
  }

  const SingleQueryArgs& args_;
  const std::byte* k_;
  const std::byte* v_;
  std::int64_t ids_begin_;
  WarpShare share_;
  std::int32_t next_;
  int lane_;
  int stage_ = 0;
  std::uint32_t stages_;              // address of the lane's chunk in the first rows of the stages
  TokenLocation locations_[kStages];  // locations of the next slices
  std::int32_t page_;                 // page of the slice after these, counted from the sequence's first
  std::int32_t page_offset_;
};

}  // namespace trunkline::cuda::single_query
