// What of a batch's slices comes by TMA tiles, of K or of V. It is looked up once, a lane for each slice, as the warps
// that begin TMA tiles are short of time: where each half of a tile has stages of its own, or both warpgroups take
// those of one by turns, the ring is to be filled with two stages in 1,600 clocks.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm90/forward/cache_maps.hpp"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"

namespace trunkline::cuda::sm90 {

class SliceTmaTiles {
  static constexpr std::uint32_t kAllSlices = (1u << kSlices) - 1;

 public:
  /// \param octets of a TMA tile
  __device__ __forceinline__ SliceTmaTiles(const CacheMap& map, std::int32_t octets, int lane)
      : tensor_(&map.tensor), page_octets_(map.page_octets), tma_tile_octets_(octets), lane_(lane) {}

  __device__ __forceinline__ void prefetch() const { prefetch_map(*tensor_); }

  /// \param wanted whether the lane's slice comes by TMA tiles
  __device__ __forceinline__ void view(const SliceRecord& slice, bool wanted, std::int32_t page_size) {
#pragma unroll
    for (int i = 0; i < kSliceOctets; ++i) {
      const SliceRecord::TokenPlace place = slice.place_of(i * kOctetRows, page_size);
      octets_[i] = static_cast<int>(place.page * page_octets_ + place.place / kOctetRows);
    }
    slices_ = __ballot_sync(kWholeWarp, wanted && slice.count > 0);
    // The end of a short slice may have no page.
    const bool second = wanted && slice.count > kOctetRows && tma_tile_octets_ < kSliceOctets;
    second_ = __ballot_sync(kWholeWarp, second);
  }

  /// Of the batch's stage of that number.
  __device__ __forceinline__ std::uint32_t bytes(int number) const {
    const int tma_tiles = __popc(of_stage(slices_, number)) + __popc(of_stage(second_, number));
    return static_cast<std::uint32_t>(tma_tiles * tma_tile_octets_ * kOctetBytes);
  }

  /// By a whole warp. \param to the slot \param full its barrier, which was told of the bytes
  __device__ __forceinline__ void copy(int number, int head, std::uint32_t to, std::uint32_t full) const {
    const std::uint32_t slices = of_stage(slices_, number);
    const std::uint32_t second = of_stage(second_, number);
    int octets[kSlices];
#pragma unroll
    for (int i = 0; i < kSlices; ++i) octets[i] = __shfl_sync(kWholeWarp, octets_[0], kSlices * number + i);
    if (slices == kAllSlices && second == 0) {
      // By one lane: the compiler then makes no loop over lanes.
      if (elect_one()) {
#pragma unroll
        for (int i = 0; i < kSlices; ++i) copy_tma_tile(to + kSliceBytes * i, *tensor_, head, octets[i], full);
      }
      return;
    }
    const int slice = lane_ - kSlices * number;
    if (slice < 0 || slice >= kSlices) return;
    if ((slices >> slice & 1) != 0) copy_tma_tile(to + kSliceBytes * slice, *tensor_, head, octets_[0], full);
    if ((second >> slice & 1) != 0)
      copy_tma_tile(to + kSliceBytes * slice + kOctetBytes, *tensor_, head, octets_[1], full);
  }

 private:
  static __device__ __forceinline__ std::uint32_t of_stage(std::uint32_t slices, int number) {
    return slices >> (kSlices * number) & kAllSlices;
  }

  const CUtensorMap* tensor_;
  std::int64_t page_octets_;
  std::int32_t tma_tile_octets_;
  int lane_;
  std::uint32_t slices_ = 0;  // of the batch, a bit each
  std::uint32_t second_ = 0;  // of which a second TMA tile brings the other half
  int octets_[kSliceOctets];  // of the lane's slice
};

}  // namespace trunkline::cuda::sm90
