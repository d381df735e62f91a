// Merging a row's attention states by online softmax, by one warp: the same bits whichever kernel does it.
#pragma once

#include <cstdint>

#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/ptx.cuh"

namespace trunkline::cuda {

/// `kCount` neighbours, aligned to their size up to 16 bytes.
template <class T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Chunk {
  T element[kCount];
};

/// Which states a row merges, in this order.
struct StateList {
  const std::int32_t* slots;  // null: first, first + 1, ...
  std::int32_t first;
  std::int32_t count;

  __device__ __forceinline__ std::int32_t slot(std::int32_t i) const { return slots != nullptr ? slots[i] : first + i; }
};

/// A lane's part: kDim / 32 neighbouring elements.
template <int kDim>
struct MergedRow {
  static constexpr int kElements = kDim / 32;
  float o[kElements];
  float lse;  // base 2, the same in all lanes
};

/// Un-merged outputs in fp32, [slots, Hq, d], and base-2 LSEs, [slots, Hq], for one head. Read past L1, as other SMs
/// may have written them a moment ago.
template <int kDim>
struct PartialStates {
  const float* out;  // of the head
  const float* lse;
  std::int32_t q_heads;

  __device__ __forceinline__ float lse_of(std::int32_t slot) const {
    return __ldcg(lse + std::int64_t{slot} * q_heads);
  }
  __device__ __forceinline__ void load(std::int32_t slot, int column, float (&to)[kDim / 32]) const {
    const float* from = out + std::int64_t{slot} * q_heads * kDim + column;
    if constexpr (kDim == 64) {
      const float2 pair = __ldcg(reinterpret_cast<const float2*>(from));
      to[0] = pair.x;
      to[1] = pair.y;
    } else {
#pragma unroll
      for (int i = 0; i < kDim / 32; i += 4) {
        const float4 four = __ldcg(reinterpret_cast<const float4*>(from + i));
        to[i] = four.x;
        to[i + 1] = four.y;
        to[i + 2] = four.z;
        to[i + 3] = four.w;
      }
    }
  }
};

/// O = sum over the list of 2^(lse_i - lse) O_i. The maximum first, as it depends on no order; then the sums, in order.
/// What states over no token (LSE of -inf) hold changes nothing, NaN neither.
template <int kDim, class States>
__device__ __forceinline__ MergedRow<kDim> merge_row(const States& states, const StateList& list, int lane) {
  constexpr int kElements = MergedRow<kDim>::kElements;
  // The same in all lanes, in a register that says so: else each shuffle in a loop is a call.
  const std::int32_t count = __reduce_max_sync(kWholeWarp, list.count);
  float maximum = -INFINITY;
  for (std::int32_t i = lane; i < count; i += 32) maximum = fmaxf(maximum, states.lse_of(list.slot(i)));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    maximum = fmaxf(maximum, __shfl_xor_sync(kWholeWarp, maximum, distance));
  }
  MergedRow<kDim> merged{};
  float sum = 0;
  for (std::int32_t first = 0; first < count; first += 32) {
    const std::int32_t here = min(32, count - first);
    std::int32_t slot = 0;
    float weight = 0;
    if (lane < here) {
      slot = list.slot(first + lane);
      const float lse = states.lse_of(slot);
      weight = lse == -INFINITY ? 0 : exp2f(lse - maximum);
    }
#pragma unroll 4
    for (std::int32_t i = 0; i < here; ++i) {
      const float factor = __shfl_sync(kWholeWarp, weight, i);
      const std::int32_t from = __shfl_sync(kWholeWarp, slot, i);
      float part[kElements];
      states.load(from, lane * kElements, part);
      sum += factor;
#pragma unroll
      for (int element = 0; element < kElements; ++element)
        merged.o[element] += factor == 0 ? 0 : factor * part[element];
    }
  }
  const float inverse = sum == 0 ? 0 : 1 / sum;  // nothing seen: O = 0. A NaN stays one
#pragma unroll
  for (float& element : merged.o) element *= inverse;
  merged.lse = sum == 0 ? -INFINITY : maximum + log2f(sum);
  return merged;
}

/// Writes neighbours of a row in another type; `to` is aligned to their size up to 16 bytes.
template <class Element, int kCount>
__device__ __forceinline__ void store_rounded(std::uint16_t* to, const float (&from)[kCount]) {
  static_assert(kCount % 2 == 0);
  Chunk<std::uint32_t, kCount / 2> chunk;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) chunk.element[i] = Element::round(from[2 * i], from[2 * i + 1]);
  *reinterpret_cast<Chunk<std::uint32_t, kCount / 2>*>(to) = chunk;
}

template <int kCount>
__device__ __forceinline__ void store_floats(float* to, const float (&from)[kCount]) {
  Chunk<float, kCount> chunk;
#pragma unroll
  for (int i = 0; i < kCount; ++i) chunk.element[i] = from[i];
  *reinterpret_cast<Chunk<float, kCount>*>(to) = chunk;
}

/// Writes one merged (query, head) where a layer's O and LSE are.
template <class Element, int kDim>
__device__ __forceinline__ void write_merged(const LayerArgs& layer, std::int64_t token, std::int32_t head,
                                             const MergedRow<kDim>& merged, int lane) {
  const std::int64_t at = token * layer.out_token + head * layer.out_head + lane * MergedRow<kDim>::kElements;
  if (layer.out_f32 != 0) {
    store_floats(static_cast<float*>(layer.out) + at, merged.o);
  } else {
    store_rounded<Element>(static_cast<std::uint16_t*>(layer.out) + at, merged.o);
  }
  if (layer.lse != nullptr && lane == 0) {
    layer.lse[token * layer.lse_token + head * layer.lse_head] = merged.lse * layer.lse_factor;
  }
}

}  // namespace trunkline::cuda
