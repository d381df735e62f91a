// What is compiled, and the sizes that host and device agree on.
#pragma once

#include <cstdint>

/// The one list of compiled combinations (element type, head dimension): one .cu each; dispatch, tests and the support
/// table follow it.
#define TRUNKLINE_SM80_KERNELS(ENTRY) \
  ENTRY(kF16, 64)                     \
  ENTRY(kF16, 128)                    \
  ENTRY(kF16, 256)                    \
  ENTRY(kBF16, 64)                    \
  ENTRY(kBF16, 128)                   \
  ENTRY(kBF16, 256)

namespace trunkline::cuda::sm80 {

/// Rows that a warp's matrix instructions compute together.
inline constexpr int kWarpRows = 16;
inline constexpr int kConsumerWarps = 4;
/// One warp cannot begin copies as fast as L2 answers: at head dimension 128 an H200 re-read 4.3 TB/s with one, 6.8
/// with two. The second takes no registers from the others: an SM's four parts have room for three warps of 168 each.
inline constexpr int kProducerWarps = 2;
inline constexpr int kThreads = 32 * (kConsumerWarps + kProducerWarps);

/// Rows of the tiles: those whose row groups divide the consumer warps evenly.
inline constexpr std::int32_t kTileRows[] = {16, 32, 64};
inline constexpr int kMaxTileRows = kConsumerWarps * kWarpRows;
/// An item of the largest tile at group size 1; a visibility word has a bit for each.
inline constexpr int kMaxTileQueries = kMaxTileRows;

/// KV tokens of a stage, for all tiles of a head dimension: the ring's slots hold the K or the V of one. 32 at head
/// dimension 256, whose 64 would leave a ring of three stages on an A100.
constexpr int stage_tokens(int head_dim) {
  return head_dim <= 128 ? 64 : 32;
}

/// Slots of the ring: 96 KiB, of which two CTAs fit an H200's 228 KiB and one an A100's 164; 128 KiB at head dimension
/// 256, one CTA on either.
constexpr int ring_slots(int head_dim) {
  return head_dim == 64 ? 12 : head_dim == 128 ? 6 : 8;
}

/// Slots of the ring where a CTA has no more than kCompactBytes of shared memory: 80 KiB, and the rest for what goes
/// with them.
constexpr int compact_ring_slots(int head_dim) {
  return head_dim == 64 ? 10 : 5;
}
/// Shared memory of a CTA on compute capability 8.6, 8.9 and 12.0.
inline constexpr int kCompactBytes = 99 * 1024;

/// CTAs that an SM of the newest supported kind holds at once, for which registers are rationed.
constexpr int target_ctas(int head_dim) {
  return head_dim <= 128 ? 2 : 1;
}

}  // namespace trunkline::cuda::sm80
