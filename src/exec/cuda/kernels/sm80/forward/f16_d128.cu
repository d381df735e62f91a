#include "exec/cuda/kernels/sm80/forward/instance.cuh"

namespace trunkline::cuda::sm80 {

KernelSet kernel_set_kF16_128() {
  return instantiate<Half, 128>();
}

}  // namespace trunkline::cuda::sm80
