// Writing outputs and partials, and merging partials by online softmax.
#pragma once

#include "base/half.hpp"
#include "exec/cpu/isa.hpp"
#include "exec/cpu/kernel_api.hpp"

namespace trunkline::cpu {

/// Lets a sink take its share of a softmax over all tokens of a query: a logit more in its sum, without a value.
/// \param lse in base 2, before and after
template <class Isa, int kDim>
TRUNKLINE_NOINLINE void add_sink(float sink, float* o, float& lse) {
  constexpr int kLanes = Isa::kLanes;
  const float logit = sink * 1.44269504F;
  const float maximum = logit > lse ? logit : lse;
  if (maximum == -__builtin_inff()) return;  // neither a token nor a sink with weight
  const float tokens = exp2<kLanes>(broadcast<kLanes>(lse - maximum))[0];
  const float sum = tokens + exp2<kLanes>(broadcast<kLanes>(logit - maximum))[0];
  const float share = tokens / sum;
  for (int element = 0; element < kDim; ++element) o[element] *= share;
  lse = maximum + __builtin_log2f(sum);
}

/// O of one (query token, query head) in the caller's type, and its LSE (given in base 2). As each output is written
/// once, whether it is an item's own or merged from partials, sinks are added here.
template <class Isa, int kDim>
TRUNKLINE_INLINE void write_output(const LayerView& layer, int token, int q_head, float* o, float lse) {
  if (layer.sinks != nullptr) add_sink<Isa, kDim>(layer.sinks[q_head], o, lse);
  const std::int64_t at = token * layer.out_token_stride + q_head * layer.out_head_stride;
  if (layer.out_type == 0) {
    __builtin_memcpy(layer.out + at * 4, o, kDim * sizeof(float));
  } else {
    std::uint16_t rounded[kDim];
    for (int element = 0; element < kDim; ++element) {
      rounded[element] = layer.out_type == 1 ? f32_to_f16(o[element]) : f32_to_bf16(o[element]);
    }
    __builtin_memcpy(layer.out + at * 2, rounded, sizeof(rounded));
  }
  if (layer.lse != nullptr) {
    layer.lse[token * layer.lse_token_stride + q_head * layer.lse_head_stride] = lse * layer.lse_factor;
  }
}

template <class Isa, int kDim>
TRUNKLINE_INLINE void write_partial(const LayerView& layer, int slot, int q_head, const float* o, float lse) {
  const std::int64_t at = std::int64_t{slot} * layer.q_heads + q_head;
  __builtin_memcpy(layer.partial_out + at * kDim, o, kDim * sizeof(float));
  layer.partial_lse[at] = lse;
}

/// O = sum over slots of 2^(lse_i - lse) O_i with lse = log2 of the sum of 2^lse_i, in the order of `slots`.
template <class Isa, int kDim>
void merge_query(const LayerView& layer, const std::int32_t* slots, int slot_count, int token, int head_begin,
                 int head_end) {
  constexpr int kLanes = Isa::kLanes;
  for (int head = head_begin; head < head_end; ++head) {
    float maximum = -__builtin_inff();
    for (int i = 0; i < slot_count; ++i) {
      const float lse = layer.partial_lse[std::int64_t{slots[i]} * layer.q_heads + head];
      maximum = lse > maximum ? lse : maximum;
    }
    alignas(64) float o[kDim] = {};
    float sum = 0;
    for (int i = 0; i < slot_count; ++i) {
      const std::int64_t at = std::int64_t{slots[i]} * layer.q_heads + head;
      if (layer.partial_lse[at] == -__builtin_inff()) continue;
      const float weight = exp2<kLanes>(broadcast<kLanes>(layer.partial_lse[at] - maximum))[0];
      sum += weight;
      const float* partial = layer.partial_out + at * kDim;
      for (int element = 0; element < kDim; element += kLanes) {
        store<kLanes>(o + element, load<kLanes>(o + element) + load<kLanes>(partial + element) * weight);
      }
    }
    const float inverse = sum == 0 ? 0 : 1 / sum;  // nothing seen: O = 0. A NaN stays one
    for (int element = 0; element < kDim; ++element) o[element] *= inverse;
    const float lse = sum == 0 ? -__builtin_inff() : maximum + __builtin_log2f(sum);
    write_output<Isa, kDim>(layer, token, head, o, lse);
  }
}

}  // namespace trunkline::cpu
