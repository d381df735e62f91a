#include "exec/cuda/kernels/sm80/forward/instance.cuh"

namespace trunkline::cuda::sm80 {

KernelSet kernel_set_kF16_64() {
  return instantiate<Half, 64>();
}

}  // namespace trunkline::cuda::sm80
