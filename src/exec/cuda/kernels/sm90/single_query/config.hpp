// The compiled variants of the single-query kernel, and the sizes that host and device share.
#pragma once

#include <cstdint>

/// The list of compiled element types, all at head dimension 128, one .cu each.
#define TRUNKLINE_SINGLE_QUERY_KERNELS(ENTRY) \
  ENTRY(kF16)                                 \
  ENTRY(kBF16)

namespace trunkline::cuda::single_query {

inline constexpr int kDim = 128;
inline constexpr int kRowBytes = 2 * kDim;
/// Rows of a KV head's query heads, padded to the rows of mma.sync.
inline constexpr int kRows = 16;

inline constexpr int kWarps = 12;
inline constexpr int kThreads = 32 * kWarps;

/// A warp takes KV tokens in slices of 16, from its own stages: one slice is computed while the next is in flight, 96
/// KiB of an SM. Eight warps with two slices in flight each took 1.04 to 1.10 of the time of 32,768 tokens: three warps
/// on a scheduler hide each other's waits.
inline constexpr int kSliceTokens = 16;
inline constexpr int kTokensOn = kWarps * kSliceTokens;  // tokens from a slice of a warp to its next
inline constexpr int kSliceBytes = kSliceTokens * kRowBytes;
inline constexpr int kAhead = 1;
inline constexpr int kStages = kAhead + 1;

/// Maximum of CTAs of a cluster, which every device with clusters supports.
inline constexpr int kMaxBlocks = 8;

/// Up to so many tokens a CTA, one cluster computes a head alone.
inline constexpr std::int32_t kTokensAlone = 256;

/// The unit of merging: four columns of a row.
inline constexpr int kUnitColumns = 4;
inline constexpr int kRowUnits = kDim / kUnitColumns;
inline constexpr int kMaxUnits = kRows * kRowUnits;

/// Capacity of Scratch::arrived: a counter for each CTA of one cluster of each KV head.
inline constexpr std::int32_t kCounters = 256;

}  // namespace trunkline::cuda::single_query
