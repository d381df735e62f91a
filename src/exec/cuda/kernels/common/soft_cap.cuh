// The bound of logits by a soft cap: x becomes cap * tanh(x / cap).
#pragma once

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda {

/// Whether the layer has a soft cap.
__device__ __forceinline__ bool has_soft_cap(const LayerArgs& layer) {
  return layer.cap_factor != 0;
}

/// Returns tanh(x / cap) = 1 - 2 / (e^(2 x / cap) + 1), with an absolute error below 3e-7; NaN for NaN. tanh.approx is
/// one instruction, not two, but its error of 5e-4 would be 0.02 of a logit at a cap of 50.
/// \param logit Q K, unscaled \param factor LayerArgs::cap_factor, times the head's scale
__device__ __forceinline__ float cap_logit(float logit, float factor) {
  return fmaf(-2.0F, reciprocal_approx(exp2_approx(logit * factor) + 1.0F), 1.0F);
}

/// Caps a lane's logits in place, before masked ones become -inf.
template <int kBlocks>
__device__ __forceinline__ void cap_logits(float (&logits)[kBlocks][4], float factor) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) logits[i][j] = cap_logit(logits[i][j], factor);
  }
}

}  // namespace trunkline::cuda
