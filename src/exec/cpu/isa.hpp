// Traits of the instruction sets: lanes, register blocking, and loads of all element types.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/vec.hpp"

namespace trunkline::cpu {

// Element types of a cache, as tags. An element's value is kUnit times what load_elements() returns for it.
struct F32 {
  static constexpr int kBytes = 4;
  static constexpr float kUnit = 1;
};
struct F16 {
  static constexpr int kBytes = 2;
  static constexpr float kUnit = 1;
};
struct BF16 {
  static constexpr int kBytes = 2;
  static constexpr float kUnit = 1;
};
struct F8E4M3 {
  static constexpr int kBytes = 1;
  static constexpr float kUnit = 0x1p8F;  // between the exponent biases of f16 and E4M3
};
struct F8E5M2 {
  static constexpr int kBytes = 1;
  static constexpr float kUnit = 1;
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
  static constexpr int kPanelVecs = 2;   // rows of a panel / kLanes
  static constexpr int kTokenBlock = 4;  // tokens of a panel computed together: 8 accumulators of 16 registers
  static constexpr int kNarrowRows = 4;  // up to so many rows, lanes of scores run along d; above, along rows
  static constexpr int kValueRows = 6;   // of a tile of O, a multiple of kValueStep
  static constexpr int kValueStep = 2;
  static constexpr int kValueSums = 12;              // accumulators of such a tile
  static constexpr bool kBroadcastOperands = false;  // FMAs take a scalar of memory for all lanes
  static constexpr bool kSlowConversion = true;      // of f16: V, too, becomes fp32 once a block

  // Halves below 2^-14 are subnormal: building the float with a wrong exponent and multiplying by 2^112 gets all right
  // but inf and NaN, whose exponent is patched. (Fabian Giesen's observation, "half to float done quick".)
  static TRUNKLINE_INLINE VecF<kLanes> from_f16(VecTypes<kLanes>::Half half) {
    using U = VecTypes<kLanes>::Uint;
    const U bits = __builtin_convertvector(half, U);
    const U magnitude = (bits & 0x7FFFU) << 13;
    const U inf_or_nan = reinterpret_cast<U>(magnitude >= (0x7C00U << 13)) & 0x7F800000U;
    const VecF<kLanes> scaled = reinterpret_cast<VecF<kLanes>>(magnitude) * 0x1p112F;
    return reinterpret_cast<VecF<kLanes>>(reinterpret_cast<U>(scaled) | inf_or_nan | ((bits & 0x8000U) << 16));
  }

  // Bytes as 16 bits, with their signs in all upper ones.
  static TRUNKLINE_INLINE VecTypes<kLanes>::Half widen(const std::byte* from) {
    VecTypes<kLanes>::SignedByte bytes;
    __builtin_memcpy(&bytes, from, sizeof(bytes));
    return reinterpret_cast<VecTypes<kLanes>::Half>(__builtin_convertvector(bytes, VecTypes<kLanes>::SignedHalf));
  }
};

#if defined(__AVX2__) && defined(__F16C__)
struct Avx2 {
  static constexpr int kLanes = 8;
  static constexpr int kPanelVecs = 3;
  static constexpr int kTokenBlock = 4;  // 12 accumulators, 3 operands and a broadcast: 16 registers
  static constexpr int kNarrowRows = 8;
  static constexpr int kValueRows = 6;
  static constexpr int kValueStep = 2;
  static constexpr int kValueSums = 12;
  static constexpr bool kBroadcastOperands = false;
  static constexpr bool kSlowConversion = false;

  static TRUNKLINE_INLINE VecF<kLanes> from_f16(VecTypes<kLanes>::Half half) {
    return reinterpret_cast<VecF<kLanes>>(_mm256_cvtph_ps(reinterpret_cast<__m128i>(half)));
  }
  // As Portable's; GCC makes five instructions of the conversion of vectors, where there is one.
  static TRUNKLINE_INLINE VecTypes<kLanes>::Half widen(const std::byte* from) {
    return reinterpret_cast<VecTypes<kLanes>::Half>(
        _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }
};
#endif

#if defined(__AVX512F__)
struct Avx512 {
  static constexpr int kLanes = 16;
  static constexpr int kPanelVecs = 3;
  static constexpr int kTokenBlock = 8;  // 24 accumulators, 3 operands and a broadcast of 32 registers
  static constexpr int kNarrowRows = 10;
  static constexpr int kValueRows = 24;
  static constexpr int kValueStep = 4;
  static constexpr int kValueSums = 24;
  static constexpr bool kBroadcastOperands = true;
  static constexpr bool kSlowConversion = false;

  static TRUNKLINE_INLINE VecF<kLanes> from_f16(VecTypes<kLanes>::Half half) {
    return reinterpret_cast<VecF<kLanes>>(_mm512_cvtph_ps(reinterpret_cast<__m256i>(half)));
  }
  static TRUNKLINE_INLINE VecTypes<kLanes>::Half widen(const std::byte* from) {
    return reinterpret_cast<VecTypes<kLanes>::Half>(
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
};
#endif

/// The largest power of two that is at most both.
TRUNKLINE_INLINE constexpr int power_of_two_within(int limit, int other_limit) {
  int power = 1;
  while (2 * power <= limit && 2 * power <= other_limit) power *= 2;
  return power;
}

/// E4M3 as f16, over 2^8: exponent and mantissa moved to those of f16, exact for subnormals too. NaN, all ones, is the
/// only code whose magnitude grows into the next exponent when the last bit of its mantissa is added; that sets the
/// exponent's highest bit, which completes the NaN of f16.
template <class Isa>
TRUNKLINE_INLINE typename VecTypes<Isa::kLanes>::Half e4m3_as_f16(const std::byte* from) {
  // The sign, in bits 15 and 14, then exponent and mantissa.
  const typename VecTypes<Isa::kLanes>::Half moved = Isa::widen(from) << 7;
  return moved ^ ((moved + 0x80) & 0x4000);
}

/// kLanes elements of a cache as fp32, over Element::kUnit. E5M2 is the upper half of f16.
template <class Isa, class Element>
TRUNKLINE_INLINE VecF<Isa::kLanes> load_elements(const std::byte* from) {
  if constexpr (Element::kBytes == 4) {
    VecF<Isa::kLanes> value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  } else if constexpr (__is_same(Element, F16)) {
    typename VecTypes<Isa::kLanes>::Half half;
    __builtin_memcpy(&half, from, sizeof(half));
    return Isa::from_f16(half);
  } else if constexpr (__is_same(Element, F8E4M3)) {
    return Isa::from_f16(e4m3_as_f16<Isa>(from));
  } else if constexpr (__is_same(Element, F8E5M2)) {
    return Isa::from_f16(Isa::widen(from) << 8);
  } else {
    return load_bf16<Isa::kLanes>(from);
  }
}

}  // namespace trunkline::cpu
