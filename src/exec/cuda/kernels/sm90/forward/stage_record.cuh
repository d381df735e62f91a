// What is known of a stage before it is copied: by it, the other warps copy, hide and pass without a look at the plan.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm90/forward/config.hpp"

namespace trunkline::cuda::sm90 {

/// Tokens of one span, up to 16. Where pages hold whole octets it lies in two of them at most, and so in two pages.
struct SliceRecord {
  union {
    // Ids of its page and, if it goes on there, of the next. A cache whose ids took more bits would have 8 TB.
    std::int32_t pages[kSliceOctets];
    std::int64_t ids_begin;  // where pages hold no whole octets: entry in the table's ids of its request's first page
  };
  std::int32_t position;  // of the first token, in its request
  std::int32_t place;     // the same in its page, where pages hold whole octets
  std::int32_t mask;      // index of the first token's; -1: none
  std::int16_t mask_stride;
  std::int8_t count;   // of tokens
  std::int8_t traits;  // kLimited, kKeyTmaTile, kValueTmaTile

  // Some of it may come after a query that the mask shows it to.
  static constexpr std::int8_t kLimited = 1;
  // Its K, or V, comes by TMA tiles, also where it ends inside of one, as the page has as many (SliceLengths).
  static constexpr std::int8_t kKeyTmaTile = 2;
  static constexpr std::int8_t kValueTmaTile = 4;

  __device__ __forceinline__ bool limited() const { return (traits & kLimited) != 0; }
  __device__ __forceinline__ bool key_tma_tile() const { return (traits & kKeyTmaTile) != 0; }
  __device__ __forceinline__ bool value_tma_tile() const { return (traits & kValueTmaTile) != 0; }

  struct TokenPlace {
    std::int32_t page;
    std::int32_t place;
  };
  /// Of one of its tokens, where pages hold whole octets.
  __device__ __forceinline__ TokenPlace place_of(int token, std::int32_t page_size) const {
    const std::int32_t in_first = place + token;
    const bool next = in_first >= page_size;
    return {pages[next ? 1 : 0], next ? in_first - page_size : in_first};
  }
};

/// What who computes a stage needs to know of it, before its record.
struct StageTraits {
  static constexpr std::uint32_t kMasked = 1;  // some row does not see some slice
  static constexpr std::uint32_t kByHand = 2;  // some slice is copied by ordinary instructions, or has an end to clear
  static constexpr std::uint32_t kAlone = 4;   // one warpgroup computes it, and releases its slots for both
  static constexpr std::uint32_t kVisible =
      8;  // some row sees some of it, or it is for half 0 as none of any half does
  // Those of a batch are one word.
  static constexpr int kBits = 4;
  static constexpr std::uint32_t kEach = 0x11111111;
  static_assert(kBits * kBatchStages == 32);
};

struct StageRecord {
  enum Kind : std::uint16_t { kQueries, kStage };

  // Both are read as one word of 8 bytes.
  alignas(8) std::uint8_t flags[kSlices];    // StageFlags
  alignas(4) std::uint8_t lengths[kSlices];  // SliceLengths
  Kind kind;
  // Of the batch, in its first record.
  std::uint8_t batch_records;
  std::uint8_t batch_ends_task;
  std::uint32_t batch_traits[kGroups];  // of the batch, in its first record: StageTraits of each for a half
  // Bit i of a half's two words for a slice: its i-th query, or (32 + i)-th, sees it. By words: a warp's rows are of
  // queries that one word has, and it reads that of all slices at once.
  alignas(16) std::uint32_t visible[kGroups][2][kSlices];
  SliceRecord slices[kSlices];
};

/// What the four slices of a stage are, a byte each, as a word.
class StageFlags {
 public:
  // Of a slice.
  static constexpr std::uint32_t kVisible = 1;   // << half: some of the half's queries may see some of it
  static constexpr std::uint32_t kMasked = 4;    // << half: some may not
  static constexpr std::uint32_t kByToken = 16;  // who sees it differs by token
  static constexpr std::uint32_t kByRow = 32;    // some of it is copied by ordinary instructions
  static constexpr std::uint32_t kHasEnd = 64;   // it is short, and comes by TMA tiles nevertheless: SliceLengths

  StageFlags() = default;
  __device__ __forceinline__ explicit StageFlags(const std::uint8_t (&flags)[kSlices])
      : word_(*reinterpret_cast<const std::uint32_t*>(flags)) {}

  __device__ __forceinline__ bool seen(int slice) const {
    return (word_ >> (8 * slice) & (kVisible | kVisible << 1)) != 0;
  }
  __device__ __forceinline__ bool by_token(int slice) const { return (word_ >> (8 * slice) & kByToken) != 0; }
  __device__ __forceinline__ bool by_row(int slice) const { return (word_ >> (8 * slice) & kByRow) != 0; }
  /// Some slice: not all of it is the same to a row.
  __device__ __forceinline__ bool some_uneven() const { return (word_ & (kByToken | kHasEnd) * 0x01010101u) != 0; }

 private:
  std::uint32_t word_;
};

/// Of the four slices of a stage, a byte each: the tokens behind which who computes the stage is to hide K and to make
/// V zero, as TMA tiles brought what lies behind them in the page, or nothing and left what an earlier round had there.
/// 16 where there is nothing to do.
class SliceLengths {
 public:
  SliceLengths() = default;
  __device__ __forceinline__ explicit SliceLengths(const std::uint8_t (&lengths)[kSlices])
      : word_(*reinterpret_cast<const std::uint32_t*>(lengths)) {}

  __device__ __forceinline__ bool all_whole() const { return word_ == kSliceTokens * 0x01010101u; }
  __device__ __forceinline__ int of(int slice) const { return static_cast<int>(word_ >> (8 * slice) & 0xFF); }

 private:
  std::uint32_t word_ = kSliceTokens * 0x01010101u;
};

}  // namespace trunkline::cuda::sm90
