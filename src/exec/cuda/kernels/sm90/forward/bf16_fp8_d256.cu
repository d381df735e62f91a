#include "exec/cuda/kernels/sm90/forward/instance.cuh"

namespace trunkline::cuda::sm90 {

KernelSet kernel_set_fp8_kBF16_256() {
  return instantiate<Bfloat, 256, 1, true>();
}

}  // namespace trunkline::cuda::sm90
