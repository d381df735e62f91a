// Functions that a CUDA compiler also compiles for the device: planning in integers must give the same bits on both.
#pragma once

#if defined(__CUDACC__)
#define TRUNKLINE_HOST_DEVICE __host__ __device__
#define TRUNKLINE_OUT_OF_LINE __noinline__  // code that devices seldom run lies not amid what they run
#else
#define TRUNKLINE_HOST_DEVICE
#define TRUNKLINE_OUT_OF_LINE
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
