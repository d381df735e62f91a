// Functions that a CUDA compiler also compiles for the device: planning in integers must give the same bits on both.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define TRUNKLINE_HOST_DEVICE __host__ __device__
#else
#define TRUNKLINE_HOST_DEVICE
#endif

// Before a loop. Planning runs most of its code once, and fetching what a loop is unrolled to takes longer than
// turning.
#if defined(__CUDA_ARCH__)
#define TRUNKLINE_ROLLED _Pragma("unroll 1")
#else
#define TRUNKLINE_ROLLED
#endif

namespace trunkline {

template <class T>
TRUNKLINE_HOST_DEVICE constexpr T min(T a, T b) {
  return b < a ? b : a;
}

template <class T>
TRUNKLINE_HOST_DEVICE constexpr T max(T a, T b) {
  return a < b ? b : a;
}

template <class T>
TRUNKLINE_HOST_DEVICE constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

/// Bits up to the highest that is set.
TRUNKLINE_HOST_DEVICE inline int bit_width(std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  int width = 0;
  for (int step = 32; step > 0; step /= 2) {
    if (value >> step != 0) {
      value >>= step;
      width += step;
    }
  }
  return width + static_cast<int>(value);
#else
  return static_cast<int>(std::bit_width(value));
#endif
}

}  // namespace trunkline
