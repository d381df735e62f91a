#include "exec/cuda/kernels/sm90/single_query/kernel.cuh"
#include "exec/cuda/kernels/sm90/single_query/kernel_set.hpp"

namespace trunkline::cuda::single_query {

KernelSet kernel_set_kF16() {
  return {reinterpret_cast<const void*>(&forward_kernel<Half, true>),
          reinterpret_cast<const void*>(&forward_kernel<Half, false>), sizeof(SharedMemory)};
}

}  // namespace trunkline::cuda::single_query
