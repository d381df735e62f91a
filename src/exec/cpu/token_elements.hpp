// How kernels read the elements of a block's tokens in one KV head.
#pragma once

#include "exec/cpu/isa.hpp"

namespace trunkline::cpu {

/// As they lie in the cache, converted on the fly.
template <class Isa, class Element>
struct CachedTokens {
  const std::byte* base;
  const std::int64_t* offsets;
  TRUNKLINE_INLINE VecF<Isa::kLanes> load(int token, int element) const {
    return load_elements<Isa, Element>(base + offsets[token] + std::int64_t{element} * Element::kBytes);
  }
};

/// After they became fp32, [kBlockTokens][kDim].
template <class Isa, int kDim>
struct CopiedTokens {
  const float* base;
  TRUNKLINE_INLINE VecF<Isa::kLanes> load(int token, int element) const {
    return trunkline::load<Isa::kLanes>(base + token * kDim + element);
  }
};

}  // namespace trunkline::cpu
