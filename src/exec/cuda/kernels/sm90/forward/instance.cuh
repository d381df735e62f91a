// Instantiates the kernels of one row of a list of config.hpp; included by one .cu for each.
#pragma once

#include "exec/cuda/kernels/sm90/forward/forward_kernel.cuh"
#include "exec/cuda/kernels/sm90/forward/kernel_set.hpp"

namespace trunkline::cuda::sm90 {

/// \tparam kKvBytes bytes of an element of K and V \tparam kVaries whether layers may vary
template <class Element, int kDim, int kKvBytes, bool kVaries>
KernelSet instantiate() {
  using Pages = Traits<kDim, kKvBytes, false, kVaries>;
  using Runs = Traits<kDim, kKvBytes, true, kVaries>;
  static_assert(sizeof(SharedMemory<Pages>) == sizeof(SharedMemory<Runs>));
  return {reinterpret_cast<const void*>(&forward_kernel<Element, Pages, false>),
          reinterpret_cast<const void*>(&forward_kernel<Element, Pages, true>),
          reinterpret_cast<const void*>(&forward_kernel<Element, Runs, false>),
          reinterpret_cast<const void*>(&forward_kernel<Element, Runs, true>),
          sizeof(SharedMemory<Pages>),
          Pages::kThreads};
}

}  // namespace trunkline::cuda::sm90
