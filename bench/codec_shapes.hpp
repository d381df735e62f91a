// CoDec (FlashForge): the shapes of its released benchmark.
#pragma once

#include <string>
#include <vector>

namespace trunkline {

struct CodecShape {
  std::string name;  ///< family and what varies in it: "vary-batch, 16"
  std::string tree;  ///< in the papers' notation
};

/// The five families of benchmark/kernel.py (f70686e) with their ranges, in its order.
std::vector<CodecShape> codec_shapes();

}  // namespace trunkline
