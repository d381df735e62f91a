#include "exec/cuda/kernels/sm80/forward/instance.cuh"

namespace trunkline::cuda::sm80 {

KernelSet kernel_set_kBF16_256() {
  return instantiate<Bfloat, 256>();
}

}  // namespace trunkline::cuda::sm80
