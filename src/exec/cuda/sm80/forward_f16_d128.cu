#include "exec/cuda/sm80/instance.cuh"

namespace trunkline::cuda::sm80 {

KernelSet kernel_set_kF16_128() {
  return instantiate<Half, 128>();
}

}  // namespace trunkline::cuda::sm80
