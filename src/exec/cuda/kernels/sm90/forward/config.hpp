// What is compiled for Hopper, and the sizes that host and device agree on.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

/// The one list of compiled element types, all at head dimension 128: one .cu each.
#define TRUNKLINE_SM90_KERNELS(ENTRY) \
  ENTRY(kF16)                         \
  ENTRY(kBF16)

namespace trunkline::cuda::sm90 {

inline constexpr int kDim = 128;
/// Rows that a consumer warpgroup's matrix instructions compute together.
inline constexpr int kGroupRows = 64;
inline constexpr int kGroups = 2;
inline constexpr int kGroupThreads = 128;
inline constexpr int kConsumerWarps = kGroups * kGroupThreads / 32;
inline constexpr int kConsumerThreads = kGroups * kGroupThreads;
/// A warp that walks tasks, one that begins K's TMA tile copies, two that copy by rows, of which one begins V's.
inline constexpr int kProducerWarps = 4;
inline constexpr int kRowLoaders = 2;
inline constexpr int kThreads = kConsumerThreads + 32 * kProducerWarps;

/// Registers of a thread: at launch all have the same; then consumers take what producers leave.
inline constexpr int kLaunchRegisters = 168;
inline constexpr int kConsumerRegisters = 208;
inline constexpr int kProducerRegisters = 88;
static_assert(kConsumerThreads * kConsumerRegisters + 32 * kProducerWarps * kProducerRegisters <=
                  kThreads * kLaunchRegisters,
              "consumers would wait for registers that are never free");

/// Rows of the tiles: both warpgroups hold the same 64 and take stages by turns, or each holds 64 of 128.
inline constexpr std::int32_t kTileRows[] = {kGroupRows, kGroups* kGroupRows};
/// An item of the largest tile at group size 1.
inline constexpr int kMaxTileQueries = kGroups * kGroupRows;

/// KV tokens of a stage, and slots of the ring, each of which holds the K or the V of one, or 64 rows of Q: 192 KiB.
inline constexpr int kStageTokens = 64;
constexpr int stage_tokens(int) {
  return kStageTokens;
}
/// A stage is four slices of up to 16 tokens of one span. All but a span's first begin where TMA tiles do.
inline constexpr int kSliceTokens = 16;
inline constexpr int kSlices = kStageTokens / kSliceTokens;
inline constexpr int kSlots = 12;
/// Slots that are on their way at once: 80 KiB, where 24 keep the memory busy (latency x bandwidth). All that the ring
/// has room for would be 24 MB on all SMs and queue up for 5 us: SMs that are served first would be done before others,
/// and Q, page ids and records would come behind it.
inline constexpr int kSlotsOnTheirWay = 5;
static_assert(kSlotsOnTheirWay <= kSlots);
inline constexpr int kRowBytes = 2 * kDim;
inline constexpr int kSlotBytes = kStageTokens * kRowBytes;
/// A slot is octets of rows; an octet is two panels, each of 64 elements of its eight rows. So a slice is contiguous,
/// and one or two TMA tiles of a tensor map.
inline constexpr int kOctetRows = 8;
inline constexpr int kSliceOctets = kSliceTokens / kOctetRows;
/// What one TMA tile brings: a slice, where each lies in one page, or half of one; 0: pages hold no whole octets, no
/// TMA tiles.
TRUNKLINE_HOST_DEVICE constexpr int octets_of_tma_tile(std::int32_t page_size) {
  if (page_size % kSliceTokens == 0) return kSliceOctets;
  return page_size % kOctetRows == 0 ? 1 : 0;
}
static_assert(octets_of_tma_tile(16) == 2 && octets_of_tma_tile(48) == 2);
static_assert(octets_of_tma_tile(8) == 1 && octets_of_tma_tile(24) == 1 && octets_of_tma_tile(40) == 1);
static_assert(octets_of_tma_tile(1) == 0 && octets_of_tma_tile(12) == 0 && octets_of_tma_tile(20) == 0);
inline constexpr int kOctetBytes = kOctetRows * kRowBytes;
inline constexpr int kSliceBytes = kSliceTokens * kRowBytes;
inline constexpr int kPanelElements = 64;
inline constexpr int kPanelRowBytes = 2 * kPanelElements;
inline constexpr int kPanelBytes = kOctetRows * kPanelRowBytes;

/// What is known of stages before they are copied: batches of up to eight, a lane of the walking warp for each slice.
inline constexpr int kBatchStages = 32 / kSlices;
inline constexpr int kBatches = 4;

}  // namespace trunkline::cuda::sm90
