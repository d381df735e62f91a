// Exact conversion of 8-bit floats to the 16-bit type of the queries.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda {

/// Two words: four 16-bit elements.
struct Widened {
  std::uint32_t low;
  std::uint32_t high;
};

/// Returns the four e4m3 elements of a word as f16; NaN stays NaN. One instruction a pair (compute capability 8.9).
__device__ __forceinline__ Widened widen_e4m3(std::uint32_t word) {
  Widened wide;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high; }"
      : "=r"(wide.low), "=r"(wide.high)
      : "r"(word));
  return wide;
}
/// The same of e5m2, whose infinities stay.
__device__ __forceinline__ Widened widen_e5m2(std::uint32_t word) {
  Widened wide;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e5m2x2 %0, low; cvt.rn.f16x2.e5m2x2 %1, high; }"
      : "=r"(wide.low), "=r"(wide.high)
      : "r"(word));
  return wide;
}

/// Returns a pair of f16 as a pair of Element. bf16 has the range of fp32, so all 8-bit floats are exact in it; the way
/// by fp32 takes four instructions.
template <class Element>
__device__ __forceinline__ std::uint32_t from_half_pair(std::uint32_t pair) {
  if constexpr (std::is_same_v<Element, Half>) {
    return pair;
  } else {
    __half2 halves;
    memcpy(&halves, &pair, sizeof(halves));
    const float2 floats = __half22float2(halves);
    return Element::round(floats.x, floats.y);
  }
}

/// Returns the four 8-bit elements of a word as Element. \tparam kE5M2 e5m2, else e4m3
template <class Element, bool kE5M2>
__device__ __forceinline__ Widened widen(std::uint32_t word) {
  const Widened halves = kE5M2 ? widen_e5m2(word) : widen_e4m3(word);
  return {from_half_pair<Element>(halves.low), from_half_pair<Element>(halves.high)};
}

/// Returns eight 8-bit elements as Element.
template <class Element>
__device__ __forceinline__ uint4 widen(uint2 words, bool e5m2) {
  const Widened first = e5m2 ? widen<Element, true>(words.x) : widen<Element, false>(words.x);
  const Widened second = e5m2 ? widen<Element, true>(words.y) : widen<Element, false>(words.y);
  return {first.low, first.high, second.low, second.high};
}

}  // namespace trunkline::cuda
