// Instantiates the kernels of one element type and head dimension; included by one .cu for each.
#pragma once

#include "exec/cuda/kernels/sm90/forward/forward_kernel.cuh"
#include "exec/cuda/kernels/sm90/forward/kernel_set.hpp"

namespace trunkline::cuda::sm90 {

template <class Element, int kDim>
KernelSet instantiate() {
  using Pages = Traits<kDim, false>;
  using Runs = Traits<kDim, true>;
  static_assert(sizeof(SharedMemory<Pages>) == sizeof(SharedMemory<Runs>));
  return {reinterpret_cast<const void*>(&forward_kernel<Element, Pages, false>),
          reinterpret_cast<const void*>(&forward_kernel<Element, Pages, true>),
          reinterpret_cast<const void*>(&forward_kernel<Element, Runs, false>),
          reinterpret_cast<const void*>(&forward_kernel<Element, Runs, true>), sizeof(SharedMemory<Pages>)};
}

}  // namespace trunkline::cuda::sm90
