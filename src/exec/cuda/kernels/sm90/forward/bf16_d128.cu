#include "exec/cuda/kernels/sm90/forward/instance.cuh"

namespace trunkline::cuda::sm90 {

KernelSet kernel_set_kBF16_128() {
  return instantiate<Bfloat, 128, 2>();
}

}  // namespace trunkline::cuda::sm90
