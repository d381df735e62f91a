// The bound of logits by a soft cap: x becomes cap * tanh(x / cap).
#pragma once

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda {

/// Whether the layer has a soft cap.
__device__ __forceinline__ bool has_soft_cap(const LayerArgs& layer) {
  return layer.cap_factor != 0;
}

/// Returns tanh(x / cap), with a relative error below 1e-6; NaN for NaN. Below 0.6 it is a polynomial, that of the CPU
/// (src/exec/cpu/soft_cap.hpp): 1 - 2 / (e^2z + 1) cancels there, and times a large cap its absolute error of 3e-7
/// would be seen. tanh.approx is one instruction, but its error of 5e-4 is 0.02 of a logit at a cap of 50. \param logit
/// Q K, unscaled \param factor LayerArgs::cap_factor, times the head's scale
__device__ __forceinline__ float cap_logit(float logit, float factor) {
  constexpr float kTwoLog2E = 2.88539008F;
  const float z = logit * factor;
  const float square = z * z;
  float p = fmaf(square, 1.56404611e-2F, -5.22310928e-2F);
  p = fmaf(p, square, 1.33135204e-1F);
  p = fmaf(p, square, -3.33326216e-1F);
  const float small = fmaf(z, p * square, z);
  const float large = fmaf(-2.0F, reciprocal_approx(exp2_approx(z * kTwoLog2E) + 1.0F), 1.0F);
  return fabsf(z) < 0.6F ? small : large;
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
