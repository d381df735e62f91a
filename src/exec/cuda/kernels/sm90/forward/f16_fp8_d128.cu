#include "exec/cuda/kernels/sm90/forward/instance.cuh"

namespace trunkline::cuda::sm90 {

KernelSet kernel_set_fp8_kF16_128() {
  return instantiate<Half, 128, 1, true>();
}

}  // namespace trunkline::cuda::sm90
