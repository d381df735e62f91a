// The TMA tiles of a batch's slices, of K or of V. They are looked up once a batch, a lane for each slice, as the
// loaders have little time: if each half of a tile has its own stages, or both warpgroups take stages in turns, the
// ring must be filled with two stages in 1,600 clocks.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm90/forward/cache_maps.hpp"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"

namespace trunkline::cuda::sm90 {

/// \tparam S Traits
template <class S>
class SliceTmaTiles {
  static constexpr std::uint32_t kAllSlices = (1u << kSlices) - 1;

 public:
  /// \param octets octets of a TMA tile
  __device__ __forceinline__ SliceTmaTiles(const CacheMap& map, std::int32_t octets, int lane)
      : map_(map), tma_tile_octets_(octets), lane_(lane) {}

  __device__ __forceinline__ void prefetch() const {
    prefetch_map(map_.tensor);
    if (S::kCopiesRuns && map_.pairs != 0) prefetch_map(map_.slice);
  }

  /// Looks up the lane's slice of a batch. \param wanted whether the slice is copied by TMA
  __device__ __forceinline__ void view(const SliceRecord& slice, bool wanted, std::int32_t page_size) {
#pragma unroll
    for (int i = 0; i < kSliceOctets; ++i) {
      if constexpr (S::kCopiesRuns) {
        octets_[i] = slice.runs[i];
      } else {
        const SliceRecord::TokenLocation location = slice.location_of(i * kOctetRows, page_size);
        octets_[i] = static_cast<int>(location.page * map_.page_octets + location.page_offset / kOctetRows);
      }
    }
    slices_ = __ballot_sync(kWholeWarp, wanted && slice.count > 0);
    // A short slice may end before its second tile, which then may have no page.
    const bool second = wanted && slice.count > kOctetRows && tma_tile_octets_ < kSliceOctets;
    second_ = __ballot_sync(kWholeWarp, second);
    if constexpr (S::kCopiesRuns) {
      const bool one_run = octets_[1] == octets_[0] + kOctetRows;
      pairs_ = __ballot_sync(kWholeWarp, wanted && map_.pairs != 0 && one_run);
    }
  }

  /// Returns the bytes of the TMA copies of a stage. \param number index of the stage in the batch
  __device__ __forceinline__ std::uint32_t bytes(int number) const {
    const int tma_tiles = __popc(of_stage(slices_, number)) + __popc(of_stage(second_, number));
    return static_cast<std::uint32_t>(tma_tiles * tma_tile_octets_ * S::kKvOctetBytes);
  }

  /// Issues the copies of a stage, by a whole warp. \param to the slot \param full its mbarrier, which expects the
  /// bytes
  __device__ __forceinline__ void copy(int number, int head, std::uint32_t to, std::uint32_t full) const {
    const std::uint32_t slices = of_stage(slices_, number);
    const std::uint32_t second = of_stage(second_, number);
    int octets[kSlices];
#pragma unroll
    for (int i = 0; i < kSlices; ++i) octets[i] = __shfl_sync(kWholeWarp, octets_[0], kSlices * number + i);
    const std::uint32_t whole = S::kCopiesRuns ? of_stage(pairs_, number) : second == 0 ? slices : 0;
    if (whole == kAllSlices) {
      // One lane issues all copies: the compiler then makes no loop over lanes.
      if (elect_one()) {
#pragma unroll
        for (int i = 0; i < kSlices; ++i) copy_whole(to + S::kSliceBytes * i + S::kKvOffset, head, octets[i], full);
      }
      return;
    }
    const int slice = lane_ - kSlices * number;
    if (slice < 0 || slice >= kSlices) return;
    const std::uint32_t to_slice = to + static_cast<std::uint32_t>(S::kSliceBytes * slice + S::kKvOffset);
    if (S::kCopiesRuns && (whole >> slice & 1) != 0) return copy_whole(to_slice, head, octets_[0], full);
    if ((slices >> slice & 1) != 0) copy_tma_tile(to_slice, map_.tensor, head, octets_[0], full);
    if ((second >> slice & 1) != 0) copy_tma_tile(to_slice + S::kKvOctetBytes, map_.tensor, head, octets_[1], full);
  }

 private:
  // Copies a slice that is one TMA tile. \param octet its first octet, with runs its first token
  __device__ __forceinline__ void copy_whole(std::uint32_t to, int head, int octet, std::uint32_t full) const {
    if constexpr (S::kCopiesRuns) {
      constexpr int kPanelsOfRow = S::kWidens ? 1 : S::kPanels;
      copy_tma_slice(to, map_.slice, kPanelsOfRow * head, octet, full);
    } else {
      copy_tma_tile(to, map_.tensor, head, octet, full);
    }
  }

  static __device__ __forceinline__ std::uint32_t of_stage(std::uint32_t slices, int number) {
    return slices >> (kSlices * number) & kAllSlices;
  }

  const CacheMap& map_;
  std::int32_t tma_tile_octets_;
  int lane_;
  std::uint32_t slices_ = 0;  // a bit for each slice of the batch
  std::uint32_t second_ = 0;  // slices whose second half is a TMA tile of its own, unless they are in pairs_
  std::uint32_t pairs_ = 0;   // with runs: slices that are one run
  int octets_[kSliceOctets];  // octet of each tile of the lane's slice
};

}  // namespace trunkline::cuda::sm90
