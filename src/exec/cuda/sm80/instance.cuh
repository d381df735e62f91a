// Instantiates the kernels of one element type and head dimension; included by one .cu for each.
#pragma once

#include "exec/cuda/sm80/forward_kernel.cuh"
#include "exec/cuda/sm80/kernel_set.hpp"

namespace trunkline::cuda::sm80 {

template <class Element, int kDim, int kTileRows>
const void* kernel_address() {
  return reinterpret_cast<const void*>(&forward_kernel<Element, kDim, kTileRows>);
}

template <class Element, int kDim>
KernelSet instantiate() {
  return {
      kernel_address<Element, kDim, 0>(),
      {kernel_address<Element, kDim, 16>(), kernel_address<Element, kDim, 32>(), kernel_address<Element, kDim, 64>()},
      sizeof(SharedMemory<kDim>)};
}

}  // namespace trunkline::cuda::sm80
