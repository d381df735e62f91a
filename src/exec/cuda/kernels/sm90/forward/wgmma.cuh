// Matrix products of a warpgroup (compute capability 9.0a): A from registers, B from a slot of the ring. wgmma takes
// both of one type, and 8-bit types only with B along the summed dimension, so KV of 8 bits is widened in its slot.
#pragma once

#include <cstdint>
#include <type_traits>

#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm90/forward/config.hpp"

namespace trunkline::cuda::sm90 {

/// Returns the offset of 16-byte chunk c of a slot's row r, for Traits S: in panel c / 8 of the row's octet, whose rows
/// of 128 bytes are consecutive, at chunk c ^ (r % 8). This is the 128-byte swizzle that wgmma reads and TMA writes,
/// for both K (a row is a column of S) and V (a row is an index of the sum).
template <class S>
__device__ __forceinline__ std::uint32_t chunk_offset(int row, int chunk) {
  return static_cast<std::uint32_t>(row / kOctetRows * S::kOctetBytes + chunk / 8 * kPanelBytes +
                                    row % kOctetRows * kPanelRowBytes + ((chunk % 8 ^ row % 8) << 4));
}

/// Returns the address of a chunk `rows` rows behind another, with one operation. \param address of the chunk of a row
/// of which row % 8 + rows % 8 is below 8
template <class S>
__device__ __forceinline__ std::uint32_t rows_ahead(std::uint32_t address, int rows) {
  static_assert(kPanelRowBytes == 1 << 7 && kPanelBytes == 1 << 10 && S::kOctetBytes % kPanelBytes == 0);
  const int row_of_octet = rows % kOctetRows;
  return (address ^ static_cast<std::uint32_t>(row_of_octet << 7 | row_of_octet << 4)) +
         static_cast<std::uint32_t>(rows / kOctetRows * S::kOctetBytes);
}

/// wgmma descriptors of matrices in shared memory. In units of 16 bytes, the low word has the address and the stride
/// from a panel to the next, if panels are along the dimension that is not summed over; the high word has the stride
/// from an octet to the next, and the swizzle of 128 bytes. The low word is made once for a slot; steps are added to
/// it.
template <class S>
inline constexpr std::uint32_t kHighWord = 1u << 30 | S::kOctetBytes >> 4;
inline constexpr std::uint32_t kPanelStride = static_cast<std::uint32_t>(kPanelBytes >> 4) << 16;

/// Returns the low word of a slot's descriptor. \param slots address of the ring
template <class S>
__device__ __forceinline__ std::uint32_t slot_word(std::uint32_t slots, int slot) {
  return (slots >> 4) + static_cast<std::uint32_t>(slot * (S::kSlotBytes >> 4));
}
/// Returns the offset to the step-th group of 16 elements of all 64 tokens' K.
__device__ __forceinline__ constexpr std::uint32_t step_of_keys(int step) {
  return static_cast<std::uint32_t>((step / 4 * kPanelBytes + step % 4 * 32) >> 4);
}
/// Returns the offset to the step-th of the four groups of 16 tokens' V.
template <class S>
__device__ __forceinline__ constexpr std::uint32_t step_of_values(int step) {
  return static_cast<std::uint32_t>(step * 16 * S::kRowBytes >> 4);
}
/// Returns the offset to the first panel of V whose columns a warpgroup computes.
template <class S>
__device__ __forceinline__ constexpr std::uint32_t columns_of_group(int group) {
  const int panels = S::kSplitsColumns ? group * (S::kColumns / kPanelElements) : 0;
  return static_cast<std::uint32_t>(panels * (kPanelBytes >> 4));
}

/// Optimization barrier for operands: earlier results must be in their registers here. The compiler does not know that
/// products run on.
template <class T, int kBlocks>
__device__ __forceinline__ void fence_operand(T (&registers)[kBlocks][4]) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    auto& block = registers[i];
    if constexpr (std::is_same_v<T, float>) {
      asm volatile("" : "+f"(block[0]), "+f"(block[1]), "+f"(block[2]), "+f"(block[3])::"memory");
    } else {
      asm volatile("" : "+r"(block[0]), "+r"(block[1]), "+r"(block[2]), "+r"(block[3])::"memory");
    }
  }
}

/// Fences operand registers that other instructions wrote, before the first product that reads them.
__device__ __forceinline__ void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Ends a group of products; wait_for_products counts groups.
__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until all groups but the last kGroupsLeft are done; `results` are then valid and may be written.
template <int kGroupsLeft, int kBlocks>
__device__ __forceinline__ void wait_for_products(float (&results)[kBlocks][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroupsLeft) : "memory");
  fence_operand(results);
}

#define TRUNKLINE_F4(d, i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define TRUNKLINE_F32(d, i)                                                                                           \
  TRUNKLINE_F4(d, i), TRUNKLINE_F4(d, i + 1), TRUNKLINE_F4(d, i + 2), TRUNKLINE_F4(d, i + 3), TRUNKLINE_F4(d, i + 4), \
      TRUNKLINE_F4(d, i + 5), TRUNKLINE_F4(d, i + 6), TRUNKLINE_F4(d, i + 7)

/// Products of a warpgroup: S (64 x 64) = Q (64 x 16) K^T, or S += Q K^T with `add`; O (64 x 64 or 128) += P (64 x 16)
/// V. The layout of fragments is that of mma.sync, 16 rows a warp. \param high the descriptor's high word
template <class Element>
struct Products;

#define TRUNKLINE_PRODUCTS(Element, type)                                                                              \
  template <>                                                                                                          \
  struct Products<Element> {                                                                                           \
    static __device__ __forceinline__ void multiply_keys(float (&s)[8][4], const std::uint32_t (&q)[4],                \
                                                         std::uint32_t keys, std::uint32_t high, bool add) {           \
      asm volatile(                                                                                                    \
          "{ .reg .pred p; .reg .b64 keys; setp.ne.b32 p, %37, 0; mov.b64 keys, {%36, %38}; "                          \
          "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                                  \
          " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "     \
          "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, keys, p, 1, 1, 0; }"               \
          : TRUNKLINE_F32(s, 0)                                                                                        \
          : "r"(q[0]), "r"(q[1]), "r"(q[2]), "r"(q[3]), "r"(keys), "r"(static_cast<int>(add)), "r"(high));             \
    }                                                                                                                  \
    static __device__ __forceinline__ void multiply_values(float (&o)[8][4], const std::uint32_t (&p)[4],              \
                                                           std::uint32_t values, std::uint32_t high) {                 \
      asm volatile(                                                                                                    \
          "{ .reg .b64 values; mov.b64 values, {%36, %37}; "                                                           \
          "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                                  \
          " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "     \
          "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, values, 1, 1, 1, 1; }"             \
          : TRUNKLINE_F32(o, 0)                                                                                        \
          : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(values), "r"(high));                                       \
    }                                                                                                                  \
    static __device__ __forceinline__ void multiply_values(float (&o)[16][4], const std::uint32_t (&p)[4],             \
                                                           std::uint32_t values, std::uint32_t high) {                 \
      asm volatile(                                                                                                    \
          "{ .reg .b64 values; mov.b64 values, {%68, %69}; "                                                           \
          "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                                 \
          " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "     \
          "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "  \
          "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
          "{%64, %65, %66, %67}, values, 1, 1, 1, 1; }"                                                                \
          : TRUNKLINE_F32(o, 0), TRUNKLINE_F32(o, 8)                                                                   \
          : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(values), "r"(high));                                       \
    }                                                                                                                  \
  };
TRUNKLINE_PRODUCTS(Half, "f16")
TRUNKLINE_PRODUCTS(Bfloat, "bf16")
#undef TRUNKLINE_PRODUCTS
#undef TRUNKLINE_F32
#undef TRUNKLINE_F4

}  // namespace trunkline::cuda::sm90
