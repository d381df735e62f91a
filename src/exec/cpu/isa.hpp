// Traits of the instruction sets: lanes, register blocking, and 16-bit loads.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/vec.hpp"

namespace trunkline::cpu {

// Element types of a cache, as tags.
struct F32 {
  static constexpr int kBytes = 4;
};
struct F16 {
  static constexpr int kBytes = 2;
};
struct BF16 {
  static constexpr int kBytes = 2;
};

/// bf16 is the upper half of fp32.
template <int kLanes>
TRUNKLINE_INLINE VecF<kLanes> load_bf16(const std::byte* from) {
  typename VecTypes<kLanes>::Half half;
  __builtin_memcpy(&half, from, sizeof(half));
  return reinterpret_cast<VecF<kLanes>>(__builtin_convertvector(half, typename VecTypes<kLanes>::Uint) << 16);
}

/// SSE2 or whatever the compiler's baseline has.
struct Portable {
  static constexpr int kLanes = 4;
  static constexpr int kPanelVecs = 2;    // rows of a panel / kLanes
  static constexpr int kTokenBlock = 4;   // tokens, or elements of d, computed together: 8 accumulators of 16 registers
  static constexpr int kNarrowRows = 4;   // up to so many rows, lanes run along d; above, along rows
  static constexpr int kNarrowSums = 12;  // accumulators of the narrow kernel

  // Halves below 2^-14 are subnormal: building the float with a wrong exponent and multiplying by 2^112 gets all right
  // but inf and NaN, whose exponent is patched. (Fabian Giesen's observation, "half to float done quick".)
  static TRUNKLINE_INLINE VecF<kLanes> load_f16(const std::byte* from) {
    using U = VecTypes<kLanes>::Uint;
    VecTypes<kLanes>::Half half;
    __builtin_memcpy(&half, from, sizeof(half));
    const U bits = __builtin_convertvector(half, U);
    const U magnitude = (bits & 0x7FFFU) << 13;
    const U inf_or_nan = reinterpret_cast<U>(magnitude >= (0x7C00U << 13)) & 0x7F800000U;
    const VecF<kLanes> scaled = reinterpret_cast<VecF<kLanes>>(magnitude) * 0x1p112F;
    return reinterpret_cast<VecF<kLanes>>(reinterpret_cast<U>(scaled) | inf_or_nan | ((bits & 0x8000U) << 16));
  }
};

#if defined(__AVX2__) && defined(__F16C__)
struct Avx2 {
  static constexpr int kLanes = 8;
  static constexpr int kPanelVecs = 3;
  static constexpr int kTokenBlock = 4;  // 12 accumulators, 3 operands and a broadcast: 16 registers
  static constexpr int kNarrowRows = 8;
  static constexpr int kNarrowSums = 12;  // accumulators of the narrow kernel

  static TRUNKLINE_INLINE VecF<kLanes> load_f16(const std::byte* from) {
    return reinterpret_cast<VecF<kLanes>>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
};
#endif

#if defined(__AVX512F__)
struct Avx512 {
  static constexpr int kLanes = 16;
  static constexpr int kPanelVecs = 3;
  static constexpr int kTokenBlock = 8;  // 24 accumulators, 3 operands and a broadcast of 32 registers
  static constexpr int kNarrowRows = 10;
  static constexpr int kNarrowSums = 24;

  static TRUNKLINE_INLINE VecF<kLanes> load_f16(const std::byte* from) {
    return reinterpret_cast<VecF<kLanes>>(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  }
};
#endif

/// kLanes elements of a cache as fp32.
template <class Isa, class Element>
TRUNKLINE_INLINE VecF<Isa::kLanes> load_elements(const std::byte* from) {
  if constexpr (Element::kBytes == 4) {
    VecF<Isa::kLanes> value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  } else if constexpr (__is_same(Element, F16)) {
    return Isa::load_f16(from);
  } else {
    return load_bf16<Isa::kLanes>(from);
  }
}

}  // namespace trunkline::cpu
