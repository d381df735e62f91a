#include "exec/cuda/lone_query/kernel.cuh"
#include "exec/cuda/lone_query/kernel_set.hpp"

namespace trunkline::cuda::lone_query {

KernelSet kernel_set_kBF16() {
  return {reinterpret_cast<const void*>(&forward_kernel<Bfloat, true>),
          reinterpret_cast<const void*>(&forward_kernel<Bfloat, false>), sizeof(SharedMemory)};
}

}  // namespace trunkline::cuda::lone_query
