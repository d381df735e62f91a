// Stage records: the scheduler writes one for each stage, by which the other warps copy, mask and pass stages without
// reading the plan.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm90/forward/config.hpp"

namespace trunkline::cuda::sm90 {

/// A slice: up to 16 tokens of one span. If pages are a multiple of an octet, it lies in at most two pages.
struct SliceRecord {
  // A cache whose ids or places took more than 32 bits would have 8 TB.
  union {
    // If pages are a multiple of an octet: ids of its page and, if it continues there, of the next.
    std::int32_t pages[kSliceOctets];
    // Else, if it is copied by TMA: place in the cache of each octet's first token, in tokens.
    std::int32_t runs[kSliceOctets];
    // Else: entry of the request's first page in the page table.
    std::int64_t ids_begin;
  };
  std::int32_t position;     // position of the first token in its request
  std::int32_t page_offset;  // page offset of the first token, if pages are a multiple of an octet
  std::int32_t mask;         // index of the first token's mask; -1: none
  std::int16_t mask_stride;
  std::int8_t count;   // number of tokens
  std::int8_t traits;  // kLimited, kKeyTmaTile, kValueTmaTile

  // Some of its tokens may come after a query to which the mask makes them visible.
  static constexpr std::int8_t kLimited = 1;
  // Its K, or V, is copied by TMA. If pages are a multiple of an octet, also if it ends inside a TMA tile, as the page
  // has the whole tile (SliceLengths); else if it is whole and has two runs.
  static constexpr std::int8_t kKeyTmaTile = 2;
  static constexpr std::int8_t kValueTmaTile = 4;

  __device__ __forceinline__ bool limited() const { return (traits & kLimited) != 0; }
  __device__ __forceinline__ bool key_tma_tile() const { return (traits & kKeyTmaTile) != 0; }
  __device__ __forceinline__ bool value_tma_tile() const { return (traits & kValueTmaTile) != 0; }

  struct TokenLocation {
    std::int32_t page;
    std::int32_t page_offset;
  };
  /// Returns the location of one of its tokens. \pre pages are a multiple of an octet
  __device__ __forceinline__ TokenLocation location_of(int token, std::int32_t page_size) const {
    const std::int32_t in_first = page_offset + token;
    const bool next = in_first >= page_size;
    return {pages[next ? 1 : 0], next ? in_first - page_size : in_first};
  }
  /// Returns the place in the cache of one of its tokens, in tokens. \pre it has runs
  __device__ __forceinline__ std::int32_t place_in_run(int token) const {
    return runs[token / kOctetRows] + token % kOctetRows;
  }
};

/// Traits of a stage, which consumers need before they read its record.
struct StageTraits {
  static constexpr std::uint32_t kMasked = 1;  // some slice is masked for some row
  // Some slice is copied by ordinary instructions, or has an end to clear.
  static constexpr std::uint32_t kGenericProxy = 2;
  static constexpr std::uint32_t kAlone = 4;  // one warpgroup computes it, and releases its slots for both
  // Some of it is visible to some row; or it is masked for all rows and assigned to half 0.
  static constexpr std::uint32_t kVisible = 8;
  // The traits of a batch are one word.
  static constexpr int kBits = 4;
  static constexpr std::uint32_t kEach = 0x11111111;
  static_assert(kBits * kBatchStages == 32);
};

struct StageRecord {
  enum Kind : std::uint16_t { kQueries, kStage };

  // flags and lengths are read as one word of 8 bytes.
  alignas(8) std::uint8_t flags[kSlices];    // StageFlags
  alignas(4) std::uint8_t lengths[kSlices];  // SliceLengths
  Kind kind;
  // Members of the batch, valid in its first record.
  std::uint8_t batch_records;
  std::uint8_t batch_ends_task;
  std::uint32_t batch_traits[kGroups];  // member of the batch: StageTraits of each stage, for each half
  // Masks of slices: bit i of a half's two words is the half's i-th query, and its (32 + i)-th. Indexed by word, then
  // slice: one word has the queries of all of a warp's rows, and the warp reads this word of all slices at once.
  alignas(16) std::uint32_t visible[kGroups][2][kSlices];
  SliceRecord slices[kSlices];
};

/// Flags of the four slices of a stage, a byte each, as a word.
class StageFlags {
 public:
  // Flags of a slice.
  static constexpr std::uint32_t kVisible = 1;   // << half: some of it may be visible to some of the half's queries
  static constexpr std::uint32_t kMasked = 4;    // << half: some of it may be masked for some of them
  static constexpr std::uint32_t kByToken = 16;  // the mask differs by token
  static constexpr std::uint32_t kByRow = 32;    // some of it is copied by ordinary instructions
  static constexpr std::uint32_t kHasEnd = 64;   // it is short but copied by TMA: SliceLengths applies

  StageFlags() = default;
  __device__ __forceinline__ explicit StageFlags(const std::uint8_t (&flags)[kSlices])
      : word_(*reinterpret_cast<const std::uint32_t*>(flags)) {}

  __device__ __forceinline__ bool visible(int slice) const {
    return (word_ >> (8 * slice) & (kVisible | kVisible << 1)) != 0;
  }
  __device__ __forceinline__ bool by_token(int slice) const { return (word_ >> (8 * slice) & kByToken) != 0; }
  __device__ __forceinline__ bool by_row(int slice) const { return (word_ >> (8 * slice) & kByRow) != 0; }
  /// Whether some slice has tokens that differ for a row: masks by token, or an end.
  __device__ __forceinline__ bool some_uneven() const { return (word_ & (kByToken | kHasEnd) * 0x01010101u) != 0; }

 private:
  std::uint32_t word_;
};

/// Lengths of the four slices of a stage, a byte each: consumers mask K and make V zero behind them, where TMA copied
/// later tokens of the page, or nothing, which leaves data of an earlier round. 16: there is nothing to do.
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
