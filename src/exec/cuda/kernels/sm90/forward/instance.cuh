// Instantiates the kernels of one element type and head dimension; included by one .cu for each.
#pragma once

#include "exec/cuda/kernels/sm90/forward/forward_kernel.cuh"
#include "exec/cuda/kernels/sm90/forward/kernel_set.hpp"

namespace trunkline::cuda::sm90 {

template <class Element, int kDim>
KernelSet instantiate() {
  return {reinterpret_cast<const void*>(&forward_kernel<Element, Sizes<kDim>, false>),
          reinterpret_cast<const void*>(&forward_kernel<Element, Sizes<kDim>, true>),
          sizeof(SharedMemory<Sizes<kDim>>)};
}

}  // namespace trunkline::cuda::sm90
