#include "exec/cuda/sm80/instance.cuh"

namespace trunkline::cuda::sm80 {

KernelSet kernel_set_kBF16_256() {
  return instantiate<Bfloat, 256>();
}

}  // namespace trunkline::cuda::sm80
