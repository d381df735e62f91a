// Functions that a CUDA compiler also compiles for the device: planning in integers must give the same bits on both.
#pragma once

#if defined(__CUDACC__)
#define TRUNKLINE_HOST_DEVICE __host__ __device__
#define TRUNKLINE_OUT_OF_LINE \
  __noinline__  // on devices: code that seldom runs, or of which many places would have a copy
#else
#define TRUNKLINE_HOST_DEVICE
#define TRUNKLINE_OUT_OF_LINE
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
TRUNKLINE_HOST_DEVICE constexpr T least(T a, T b) {
  return b < a ? b : a;
}

template <class T>
TRUNKLINE_HOST_DEVICE constexpr T most(T a, T b) {
  return a < b ? b : a;
}

template <class T>
TRUNKLINE_HOST_DEVICE constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace trunkline
