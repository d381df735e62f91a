// The compiled variants of the Hopper forward kernel, and the sizes that host and device share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "base/host_device.hpp"

/// The list of compiled kernels, by element type and head dimension, one .cu each.
#define TRUNKLINE_SM90_KERNELS(ENTRY) \
  ENTRY(kF16, 64)                     \
  ENTRY(kF16, 128)                    \
  ENTRY(kF16, 256)                    \
  ENTRY(kBF16, 64)                    \
  ENTRY(kBF16, 128)                   \
  ENTRY(kBF16, 256)

/// The list of compiled kernels whose K and V have 8 bits, by element type of Q and head dimension, one .cu each.
#define TRUNKLINE_SM90_FP8_KERNELS(ENTRY) \
  ENTRY(kF16, 64)                         \
  ENTRY(kF16, 128)                        \
  ENTRY(kF16, 256)                        \
  ENTRY(kBF16, 64)                        \
  ENTRY(kBF16, 128)                       \
  ENTRY(kBF16, 256)

namespace trunkline::cuda::sm90 {

/// Rows of a consumer warpgroup's matrix instructions.
inline constexpr int kGroupRows = 64;
inline constexpr int kGroups = 2;
inline constexpr int kGroupThreads = 128;
inline constexpr int kConsumerWarps = kGroups * kGroupThreads / 32;
inline constexpr int kConsumerThreads = kGroups * kGroupThreads;
/// Producer warps: the task scheduler, the K loader (TMA), and two row loaders, of which one also loads V by TMA.
inline constexpr int kProducerWarps = 4;
inline constexpr int kRowLoaders = 2;
/// Warps that widen K and V of 8 bits in their slots: one for each slice of a stage.
inline constexpr int kWidenerWarps = 4;

/// Queries of an item of the largest tile at group size 1.
inline constexpr int kMaxTileQueries = kGroups * kGroupRows;

/// KV tokens of a stage. A slot of the ring holds the K or the V of a stage, or 64 rows of Q.
inline constexpr int kStageTokens = 64;
constexpr int stage_tokens(int) {
  return kStageTokens;
}
/// A stage is four slices of up to 16 tokens of one span. All slices but a span's first are aligned to TMA tiles.
inline constexpr int kSliceTokens = 16;
inline constexpr int kSlices = kStageTokens / kSliceTokens;
/// Layout of a slot: octets of eight rows; an octet is a panel for each 64 elements of its rows. So a slice is
/// contiguous, and is one or two TMA tiles of a tensor map.
inline constexpr int kOctetRows = 8;
inline constexpr int kSliceOctets = kSliceTokens / kOctetRows;
/// Whether pages are no multiple of an octet. TMA then copies runs: octets whose tokens lie one behind another in the
/// cache, from any token on, as a prefix cache gives them after a prefill. These kernels are instances of their own:
/// with both layouts in one, batches of short tasks took 2 % longer.
TRUNKLINE_HOST_DEVICE constexpr bool copies_runs(std::int32_t page_size) {
  return page_size % kOctetRows != 0;
}
/// Returns the octets of a TMA tile: a slice if each slice lies in one page, else half a slice.
TRUNKLINE_HOST_DEVICE constexpr int octets_of_tma_tile(std::int32_t page_size) {
  return page_size % kSliceTokens == 0 ? kSliceOctets : 1;
}
/// Returns the tokens to a multiple of which a TMA tile's first position is aligned.
TRUNKLINE_HOST_DEVICE constexpr int alignment_of_tma_tile(std::int32_t page_size) {
  return copies_runs(page_size) ? 1 : kOctetRows * octets_of_tma_tile(page_size);
}
static_assert(octets_of_tma_tile(16) == 2 && octets_of_tma_tile(48) == 2);
static_assert(octets_of_tma_tile(8) == 1 && octets_of_tma_tile(24) == 1 && octets_of_tma_tile(40) == 1);
static_assert(copies_runs(1) && copies_runs(12) && copies_runs(20) && !copies_runs(8) && !copies_runs(40));
inline constexpr int kPanelElements = 64;
inline constexpr int kPanelRowBytes = 2 * kPanelElements;
inline constexpr int kPanelBytes = kOctetRows * kPanelRowBytes;

/// The traits of a kernel: its head dimension, the bytes of an element of K and V, whether it copies runs, and whether
/// it has the code for layers that vary.
template <int kHeadDim, int kBytesOfKv, bool kRuns, bool kVariedLayers>
struct Traits {
  static_assert(kHeadDim == 64 || kHeadDim == 128 || kHeadDim == 256);
  static_assert(kBytesOfKv == 1 || kBytesOfKv == 2);
  /// Whether K and V have 8 bits, and are widened to Q's 16 bits in their slots.
  static constexpr bool kWidens = kBytesOfKv == 1;
  static constexpr int kThreads = kConsumerThreads + 32 * (kProducerWarps + (kWidens ? kWidenerWarps : 0));
  static constexpr int kDim = kHeadDim;
  static constexpr bool kCopiesRuns = kRuns;
  /// Whether layers may vary (LayerArgs::varies). The code for it took ragged batches of plain layers 3 % longer on an
  /// H200, though it is not executed there: half of that is the soft cap's 400 instructions in the loop over stages.
  static constexpr bool kVaries = kVariedLayers;
  /// Whether both warpgroups compute all stages of a tile of 64 rows, each for half of the columns of O: 64 rows of O
  /// and of Q with 256 columns would be 192 registers of 208. The logits are then computed twice, which a tile that is
  /// bound by memory has the time for.
  static constexpr bool kSplitsColumns = kDim == 256;
  /// Columns of O that a warpgroup computes.
  static constexpr int kColumns = kSplitsColumns ? kDim / kGroups : kDim;

  static constexpr int kRowBytes = 2 * kDim;
  static constexpr int kPanels = kDim / kPanelElements;
  static constexpr int kOctetBytes = kOctetRows * kRowBytes;
  static constexpr int kSliceBytes = kSliceTokens * kRowBytes;
  static constexpr int kSlotBytes = kStageTokens * kRowBytes;
  /// K and V as they are copied. Rows of 8 bits lie one behind another in the second half of their slice's place, so
  /// that a warp which has read a slice may write it.
  static constexpr int kKvBytes = kBytesOfKv;
  static constexpr int kKvRowBytes = kKvBytes * kDim;
  static constexpr int kKvOctetBytes = kOctetRows * kKvRowBytes;
  static constexpr int kKvOffset = kWidens ? kSliceBytes / 2 : 0;  // in the slice's place
  /// The ring: 128, 192, 192 KiB.
  static constexpr int kSlots = kDim == 64 ? 16 : kDim == 128 ? 12 : 6;
  /// Slots in flight: 64, 80, 96 KiB, where 24 KiB keep the memory busy (latency x bandwidth). With a whole ring in
  /// flight, 24 MB of all SMs would queue for 5 us: SMs that are served first would finish before others, and Q, page
  /// ids and records would wait behind the queue.
  static constexpr int kSlotsOnTheirWay = kDim == 64 ? 8 : kDim == 128 ? 5 : 3;
  /// Maximum of the other warpgroup's stages that are passed while a stage is computed and the V of the stage before is
  /// not added yet. The ring must have room for them from that V to the next K. Further, once a stage's K is full, all
  /// copies before the last kSlotsOnTheirWay slots are done: the former round of the next K's slot must be one of
  /// these.
  static constexpr int kPassedAtMost = kSplitsColumns ? 0 : 2;
  static_assert(2 * kPassedAtMost + 2 <= kSlots);
  static_assert(2 * (kPassedAtMost + 1) + kSlotsOnTheirWay <= kSlots);

  /// Registers of a thread: equal at launch; then producers and wideners release registers, and consumers take them.
  /// Beside wideners too few are left at d = 128 and 256: the scheduler spills some words, consumers one or two.
  static constexpr int kLaunchRegisters = kWidens ? 128 : 168;
  static constexpr int kConsumerRegisters = !kWidens ? 208 : kDim == 64 ? 192 : kDim == 128 ? 200 : 208;
  static constexpr int kProducerRegisters = !kWidens ? 88 : kDim == 64 ? 88 : kDim == 128 ? 72 : 56;
  static constexpr int kWidenerRegisters = 40;
  static_assert(kConsumerThreads * kConsumerRegisters + 32 * kProducerWarps * kProducerRegisters +
                        (kWidens ? 32 * kWidenerWarps * kWidenerRegisters : 0) <=
                    kThreads * kLaunchRegisters,
                "consumers would wait for registers that are never free");
};

/// Rows of the tiles: both warpgroups hold the same 64 rows, or each holds 64 of 128 rows.
inline constexpr std::int32_t kTileRows[] = {kGroupRows, kGroups* kGroupRows};
constexpr std::span<const std::int32_t> tile_rows(int head_dim) {
  return {kTileRows, head_dim == 256 ? std::size_t{1} : std::size(kTileRows)};
}

/// Stage records, written before stages are copied: batches of up to eight stages, a lane of the scheduler warp for
/// each slice.
inline constexpr int kBatchStages = 32 / kSlices;
inline constexpr int kBatches = 4;

}  // namespace trunkline::cuda::sm90
