#include "exec/cuda/kernels/sm90/forward/instance.cuh"

namespace trunkline::cuda::sm90 {

KernelSet kernel_set_fp8_kBF16_128() {
  return instantiate<Bfloat, 128, 1, true>();
}

}  // namespace trunkline::cuda::sm90
