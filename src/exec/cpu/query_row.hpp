// Loading rows of Q. Their element type is an argument: a row is loaded once an item, and kernels that were templates
// over it as well would be three times as many.
#pragma once

#include "exec/cpu/isa.hpp"
#include "exec/cpu/kernel_api.hpp"

namespace trunkline::cpu {

template <class Isa, int kDim, class Element>
TRUNKLINE_INLINE void load_scaled(const std::byte* q, std::int64_t at, float factor, float* to) {
  constexpr int kLanes = Isa::kLanes;
  const std::byte* from = q + at * Element::kBytes;
  for (int element = 0; element < kDim; element += kLanes) {
    store<kLanes>(to + element, load_elements<Isa, Element>(from + element * Element::kBytes) * factor);
  }
}

/// Q of one query token and head, times a factor. \param to [kDim], 64-byte aligned
template <class Isa, int kDim>
TRUNKLINE_NOINLINE void load_query_row(const LayerView& layer, int token, int q_head, float factor, float* to) {
  const std::int64_t at = token * layer.q_token_stride + q_head * layer.q_head_stride;
  switch (layer.q_type) {
    case 0: return load_scaled<Isa, kDim, F32>(layer.q, at, factor, to);
    case 1: return load_scaled<Isa, kDim, F16>(layer.q, at, factor, to);
    default: return load_scaled<Isa, kDim, BF16>(layer.q, at, factor, to);
  }
}

}  // namespace trunkline::cpu
