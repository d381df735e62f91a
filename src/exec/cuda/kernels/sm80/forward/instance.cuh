// Instantiates the kernels of one element type and head dimension; included by one .cu for each.
#pragma once

#include "exec/cuda/kernels/sm80/forward/forward_kernel.cuh"
#include "exec/cuda/kernels/sm80/forward/kernel_set.hpp"

namespace trunkline::cuda::sm80 {

template <class Element, class Size>
const void* kernel_address() {
  return reinterpret_cast<const void*>(&forward_kernel<Element, Size>);
}

template <class Element, int kDim>
KernelSet instantiate() {
  using Size = Sizes<kDim, ring_slots(kDim)>;
  using Compact = Sizes<kDim, compact_ring_slots(kDim)>;
  static_assert(sizeof(SharedMemory<Compact>) <= kCompactBytes);
  return {kernel_address<Element, Size>(), sizeof(SharedMemory<Size>), kernel_address<Element, Compact>(),
          sizeof(SharedMemory<Compact>)};
}

}  // namespace trunkline::cuda::sm80
