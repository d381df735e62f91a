// Instantiates the kernels of one element type; included by one .cu for each.
#pragma once

#include "exec/cuda/kernels/sm90/forward/forward_kernel.cuh"
#include "exec/cuda/kernels/sm90/forward/kernel_set.hpp"

namespace trunkline::cuda::sm90 {

template <class Element>
KernelSet instantiate() {
  return {reinterpret_cast<const void*>(&forward_kernel<Element, false>),
          reinterpret_cast<const void*>(&forward_kernel<Element, true>), sizeof(SharedMemory)};
}

}  // namespace trunkline::cuda::sm90
