// What the tiles of `trunk` stream on a GPU is dealt out and cut in whole slices of 16 tokens, on host and device.
//
// The Hopper kernels stream a span in slices, four to a stage (exec/cuda/sm90/config.hpp). A stage in which tokens of
// one half of a tile meet the other's is computed by both, and a piece that begins within a slice has one slice more.
// Were pieces counted in tokens, ragged ends of requests would put all that follows out of step: the halves of eight
// random ragged forests had 13 to 26 % more stages to compute, which took an H200 3 to 18 % longer.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

struct Slices {
  static constexpr std::int64_t kTokens = 16;

  /// The tokens, and those that their last slice lacks.
  TRUNKLINE_HOST_DEVICE static std::int64_t whole(std::int64_t tokens) { return (tokens + kTokens - 1) & -kTokens; }
};

}  // namespace trunkline
