#include "exec/cuda/kernels/sm80/forward/instance.cuh"

namespace trunkline::cuda::sm80 {

KernelSet kernel_set_kBF16_64() {
  return instantiate<Bfloat, 64>();
}

}  // namespace trunkline::cuda::sm80
