// Attention of one row over the tokens that it sees and no other, for rows whose output came out as NaN.
//
// The tiled kernels give a token that a row does not see a weight of zero, and add zero times its V. Where that V is
// NaN or infinite, say because another request's activations overflowed, the sum becomes NaN. This path reads only the
// tokens that the row sees, so what it writes depends on no other request. It runs one row at a time, some ten times
// slower than a tile, and only for rows that a tile left as NaN.
#pragma once

#include "exec/cpu/isa.hpp"
#include "exec/cpu/soft_cap.hpp"
#include "exec/cpu/token_block.hpp"

namespace trunkline::cpu {

template <int kDim>
TRUNKLINE_INLINE bool has_nan(const float* values) {
  std::int32_t unordered = 0;
  for (int element = 0; element < kDim; ++element) unordered |= values[element] != values[element] ? 1 : 0;
  return unordered != 0;
}

/// The factor of sums of loaded V.
template <class Element>
TRUNKLINE_INLINE float value_factor(const LayerView& layer, int head) {
  return layer.v_scale.at(head) * Element::kUnit;
}

/// \param query index in the item \param q [kDim] the row, scaled to base-2 logits
/// \param o [kDim] receives the normalised output \return the LSE in base 2
template <class Isa, int kDim, class Element>
TRUNKLINE_NOINLINE float attend_isolated(const LayerView& layer, const ItemView& item, int query, int head,
                                         const float* q, float* o) {
  constexpr int kLanes = Isa::kLanes;
  const std::byte* keys = layer.k.data + head * layer.k.head;
  const std::byte* values = layer.v.data + head * layer.v.head;
  for (int element = 0; element < kDim; ++element) o[element] = 0;
  float maximum = -__builtin_inff();
  float sum = 0;
  TokenWalk<Isa> walk(layer, item, kBlockTokens);
  for (TokenBlock block; walk.next(block);) {
    for (int token = 0; token < block.count; ++token) {
      if (block.masked && ((block.visible[token][query / 64] >> (query % 64)) & 1) == 0) continue;
      VecF<kLanes> products{};
      for (int element = 0; element < kDim; element += kLanes) {
        products += load<kLanes>(q + element) *
                    load_elements<Isa, Element>(keys + block.k_offset[token] + element * Element::kBytes);
      }
      float logit = horizontal_sum<kLanes>(products);
      if (layer.cap > 0) logit = cap_logits<kLanes>(broadcast<kLanes>(logit), layer.cap)[0];
      if (logit == -__builtin_inff()) continue;
      if (logit > maximum) {
        const float factor = exp2<kLanes>(broadcast<kLanes>(maximum - logit))[0];  // 0 where nothing was seen before
        for (int element = 0; element < kDim; ++element) o[element] *= factor;
        sum *= factor;
        maximum = logit;
      }
      const float weight = exp2<kLanes>(broadcast<kLanes>(logit - maximum))[0];
      sum += weight;
      for (int element = 0; element < kDim; element += kLanes) {
        const VecF<kLanes> value =
            load_elements<Isa, Element>(values + block.v_offset[token] + element * Element::kBytes);
        store<kLanes>(o + element, load<kLanes>(o + element) + value * weight);
      }
    }
  }
  const float inverse = sum == 0 ? 0 : 1 / sum;  // nothing seen: O = 0. A NaN stays one
  const float factor = inverse * value_factor<Element>(layer, head);
  for (int element = 0; element < kDim; ++element) o[element] *= factor;
  return sum == 0 ? -__builtin_inff() : maximum + __builtin_log2f(sum);
}

}  // namespace trunkline::cpu
