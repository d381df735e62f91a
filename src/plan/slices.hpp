// The slices in which kernels stream a span, on host and device.
//
// Kernels whose tiles work as halves stream MachineProfile::slice_tokens at a time. The Hopper kernels stream 16, four
// times to a stage (exec/cuda/kernels/sm90/forward/slice_walk.cuh). A stage with tokens of both halves is computed by
// both, and a chunk that begins within a slice has one slice more. So the tiles of `trunk` are interleaved and cut in
// whole slices. Counted in tokens, ragged ends of requests would put all that follows out of step: the halves of eight
// random ragged forests had 13 to 26 % more stages to compute, which took an H200 3 to 18 % longer.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "base/host_device.hpp"
#include "trunkline/machine.hpp"

namespace trunkline {

struct Slices {
  std::int32_t tokens = 1;   ///< a power of two; 1: kernels have none
  std::int32_t aligned = 1;  ///< they begin at multiples of it, but for the first of a run of tokens

  /// Kernels whose tiles work as halves have slices. They begin where TMA tiles do, which hold tokens of one page only.
  static Slices of(const MachineProfile& profile, std::int32_t page_size) {
    if (profile.half_rows == 0) return {};
    for (const std::int32_t aligned : {profile.slice_tokens, profile.slice_alignment}) {
      if (page_size % aligned == 0) return {profile.slice_tokens, aligned};
    }
    return {profile.slice_tokens, 1};
  }

  /// Tokens that the slices of a run have room for.
  TRUNKLINE_HOST_DEVICE std::int64_t room(std::int32_t begin, std::int32_t end) const {
    const std::int64_t length = std::int64_t{end} - begin + missing_before(begin);
    return end > begin ? (length + tokens - 1) & -std::int64_t{tokens} : 0;
  }
  /// Where a run is after `offset` of that room, whole slices.
  TRUNKLINE_HOST_DEVICE std::int32_t place(std::int32_t begin, std::int64_t offset) const {
    return offset == 0 ? begin : begin - missing_before(begin) + static_cast<std::int32_t>(offset);
  }

 private:
  TRUNKLINE_HOST_DEVICE std::int32_t missing_before(std::int32_t begin) const { return begin & (aligned - 1); }
};

}  // namespace trunkline
