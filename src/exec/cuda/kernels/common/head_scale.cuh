// Scales of Q, K and V: a number for a tensor, or one for each KV head.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"

namespace trunkline::cuda {

__device__ __forceinline__ float scale_of(const HeadScale& scale, std::int32_t head) {
  return scale.heads == nullptr ? 1.0F : scale.heads[head * scale.stride];
}

/// Returns what multiplies the logits of a KV head beside LayerArgs::scale_log2 and cap_factor.
__device__ __forceinline__ float logit_scale_of(const LayerArgs& layer, std::int32_t head) {
  return scale_of(layer.q_scale, head) * scale_of(layer.k_scale, head);
}

}  // namespace trunkline::cuda
