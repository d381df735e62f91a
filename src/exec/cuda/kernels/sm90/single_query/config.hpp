// What is compiled for a single query, and the sizes that host and device agree on.
#pragma once

#include <cstdint>

/// The one list of compiled element types, all at head dimension 128: one .cu each.
#define TRUNKLINE_SINGLE_QUERY_KERNELS(ENTRY) \
  ENTRY(kF16)                                 \
  ENTRY(kBF16)

namespace trunkline::cuda::single_query {

inline constexpr int kDim = 128;
inline constexpr int kRowBytes = 2 * kDim;
/// Rows of the query's heads in a group, padded to what one mma.sync multiplies.
inline constexpr int kRows = 16;

inline constexpr int kWarps = 12;
inline constexpr int kThreads = 32 * kWarps;

/// A warp takes KV tokens 16 at a time, from copies of its own: one is computed while the next is on its way, 96 KiB of
/// an SM. Eight warps with two on their way each took 1.04 to 1.10 of the time of 32,768 tokens: three on a scheduler
/// hide what the others wait for.
inline constexpr int kSliceTokens = 16;
inline constexpr int kTokensOn = kWarps * kSliceTokens;  // from one slice of a warp to its next
inline constexpr int kSliceBytes = kSliceTokens * kRowBytes;
inline constexpr int kAhead = 1;
inline constexpr int kStages = kAhead + 1;

/// CTAs of a cluster at most, which every device with clusters has room for.
inline constexpr int kMostBlocks = 8;

/// Up to so many tokens for each of its CTAs one cluster does a head's work alone.
inline constexpr std::int32_t kTokensAlone = 256;

/// What is merged at a time: four columns of a row.
inline constexpr int kUnitColumns = 4;
inline constexpr int kRowUnits = kDim / kUnitColumns;
inline constexpr int kMostUnits = kRows * kRowUnits;

/// Counters of the blocks of one cluster for each KV head, as many as an SM has one of.
inline constexpr std::int32_t kCounters = 256;

}  // namespace trunkline::cuda::single_query
