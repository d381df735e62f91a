// The compiled variants of the portable forward kernel, and the sizes that host and device share.
#pragma once

#include <cstdint>
#include <span>

/// The list of compiled combinations (element type, head dimension), one .cu each. Dispatch, tests and the support
/// table follow it.
#define TRUNKLINE_SM80_KERNELS(ENTRY) \
  ENTRY(kF16, 64)                     \
  ENTRY(kF16, 128)                    \
  ENTRY(kF16, 256)                    \
  ENTRY(kBF16, 64)                    \
  ENTRY(kBF16, 128)                   \
  ENTRY(kBF16, 256)

namespace trunkline::cuda::sm80 {

/// Rows of a warp's matrix instructions.
inline constexpr int kWarpRows = 16;
inline constexpr int kConsumerWarps = 4;
/// One warp cannot issue copies as fast as L2 answers: at head dimension 128 an H200 re-read 4.3 TB/s with one, 6.8
/// with two. The second warp takes no registers from the others: each of an SM's four parts has room for three warps of
/// 168 registers.
inline constexpr int kProducerWarps = 2;
inline constexpr int kThreads = 32 * (kConsumerWarps + kProducerWarps);

/// Rows of the tiles: their row groups divide the consumer warps evenly.
inline constexpr std::int32_t kTileRows[] = {16, 32, 64};
constexpr std::span<const std::int32_t> tile_rows(int) {
  return kTileRows;
}
inline constexpr int kMaxTileRows = kConsumerWarps * kWarpRows;
/// Queries of an item of the largest tile at group size 1; a mask word has a bit for each.
inline constexpr int kMaxTileQueries = kMaxTileRows;

/// KV tokens of a stage, for all tiles of a head dimension; a slot of the ring holds the K or the V of a stage. 32 at
/// head dimension 256, where 64 would leave a ring of three stages on an A100.
constexpr int stage_tokens(int head_dim) {
  return head_dim <= 128 ? 64 : 32;
}

/// Slots of the ring: 96 KiB, so that two CTAs fit an H200's 228 KiB and one an A100's 164; 128 KiB at head dimension
/// 256, one CTA on either.
constexpr int ring_slots(int head_dim) {
  return head_dim == 64 ? 12 : head_dim == 128 ? 6 : 8;
}

/// Slots of the compact ring, for CTAs with at most kCompactBytes of shared memory: 80 KiB, which leave the rest to the
/// other members of SharedMemory.
constexpr int compact_ring_slots(int head_dim) {
  return head_dim == 64 ? 10 : 5;
}
/// Shared memory of a CTA on compute capability 8.6, 8.9 and 12.0.
inline constexpr int kCompactBytes = 99 * 1024;

/// CTAs that an H200's SM holds at once; the register limit follows from it.
constexpr int target_ctas(int head_dim) {
  return head_dim <= 128 ? 2 : 1;
}

}  // namespace trunkline::cuda::sm80
