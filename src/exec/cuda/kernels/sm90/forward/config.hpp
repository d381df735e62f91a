// The compiled variants of the Hopper forward kernel, and the sizes that host and device share.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

/// The list of compiled element types, all at head dimension 128, one .cu each.
#define TRUNKLINE_SM90_KERNELS(ENTRY) \
  ENTRY(kF16)                         \
  ENTRY(kBF16)

namespace trunkline::cuda::sm90 {

inline constexpr int kDim = 128;
/// Rows of a consumer warpgroup's matrix instructions.
inline constexpr int kGroupRows = 64;
inline constexpr int kGroups = 2;
inline constexpr int kGroupThreads = 128;
inline constexpr int kConsumerWarps = kGroups * kGroupThreads / 32;
inline constexpr int kConsumerThreads = kGroups * kGroupThreads;
/// Producer warps: the task scheduler, the K loader (TMA), and two row loaders, of which one also loads V by TMA.
inline constexpr int kProducerWarps = 4;
inline constexpr int kRowLoaders = 2;
inline constexpr int kThreads = kConsumerThreads + 32 * kProducerWarps;

/// Registers of a thread: equal at launch; then producers release registers, and consumers take them.
inline constexpr int kLaunchRegisters = 168;
inline constexpr int kConsumerRegisters = 208;
inline constexpr int kProducerRegisters = 88;
static_assert(kConsumerThreads * kConsumerRegisters + 32 * kProducerWarps * kProducerRegisters <=
                  kThreads * kLaunchRegisters,
              "consumers would wait for registers that are never free");

/// Rows of the tiles: both warpgroups hold the same 64 rows and take stages in turns, or each holds 64 of 128 rows.
inline constexpr std::int32_t kTileRows[] = {kGroupRows, kGroups* kGroupRows};
/// Queries of an item of the largest tile at group size 1.
inline constexpr int kMaxTileQueries = kGroups * kGroupRows;

/// KV tokens of a stage. Each of the kSlots slots of the ring holds the K or the V of a stage, or 64 rows of Q: 192
/// KiB.
inline constexpr int kStageTokens = 64;
constexpr int stage_tokens(int) {
  return kStageTokens;
}
/// A stage is four slices of up to 16 tokens of one span. All slices but a span's first are aligned to TMA tiles.
inline constexpr int kSliceTokens = 16;
inline constexpr int kSlices = kStageTokens / kSliceTokens;
inline constexpr int kSlots = 12;
/// Slots in flight: 80 KiB, where 24 KiB keep the memory busy (latency x bandwidth). With the whole ring in flight, 24
/// MB of all SMs would queue for 5 us: SMs that are served first would finish before others, and Q, page ids and
/// records would wait behind the queue.
inline constexpr int kSlotsOnTheirWay = 5;
static_assert(kSlotsOnTheirWay <= kSlots);
inline constexpr int kRowBytes = 2 * kDim;
inline constexpr int kSlotBytes = kStageTokens * kRowBytes;
/// Layout of a slot: octets of eight rows; an octet is two panels of 64 elements of its rows. So a slice is contiguous,
/// and is one or two TMA tiles of a tensor map.
inline constexpr int kOctetRows = 8;
inline constexpr int kSliceOctets = kSliceTokens / kOctetRows;
/// Returns the octets of a TMA tile: a slice if each slice lies in one page, else half a slice; 0: pages are no
/// multiple of an octet, and TMA is not used.
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

/// Stage records, written before stages are copied: batches of up to eight stages, a lane of the scheduler warp for
/// each slice.
inline constexpr int kBatchStages = 32 / kSlices;
inline constexpr int kBatches = 4;

}  // namespace trunkline::cuda::sm90
