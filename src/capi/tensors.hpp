// Tensors of the C interface as arguments of the executors, checked against the shape that is run.
#pragma once

#include <cstdint>

#include "trunkline/attention.hpp"
#include "trunkline/trunkline.h"
#include "trunkline/types.hpp"

namespace trunkline::capi {

/// The shape, sizes and device that a layer's tensors must have.
struct LayerPlace {
  AttentionShape shape;
  std::int64_t queries = 0;       ///< T
  std::int64_t num_pages = 0;     ///< that the caches must have at least
  std::int32_t device_index = 0;  ///< where shape.device is CUDA
};

/// \throws Error naming tensor and dimension, with what it is and what was expected
AttentionArgs attention_args(const trunkline_attention* layer, const LayerPlace& place);

/// \param device_index of CUDA devices
MergeStates merge_args(const trunkline_merge* merge, Device device, std::int32_t device_index);

}  // namespace trunkline::capi
