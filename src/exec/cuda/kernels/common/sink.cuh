// Attention sinks: a logit for each query head that counts once in the softmax and adds no value.
#pragma once

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda {

/// Returns the sink of a query head in base 2; -inf if the layer has none.
__device__ __forceinline__ float sink_of(const LayerArgs& layer, std::int32_t q_head) {
  constexpr float kLog2E = 1.44269504F;
  return layer.sinks == nullptr ? -INFINITY : layer.sinks[q_head] * kLog2E;
}

/// The part of a finished softmax that its tokens keep beside a sink.
struct SinkShare {
  float tokens;  // multiplies O
  float lse;     // of tokens and sink, base 2
};

/// Adds a sink to the softmax over all tokens of a query: once, where its output is written. A sink of -inf changes no
/// bit. \param lse of the tokens, base 2; -inf: there is none, and O is 0
__device__ __forceinline__ SinkShare add_sink(float sink, float lse) {
  const float max = fmaxf(sink, lse);
  const float base = max == -INFINITY ? 0 : max;
  const float tokens = exp2_approx(lse - base);
  const float sum = tokens + exp2_approx(sink - base);
  const bool nothing = sum == 0;
  return {nothing ? 1.0F : tokens * reciprocal_approx(sum), nothing ? -INFINITY : base + __log2f(sum)};
}

}  // namespace trunkline::cuda
