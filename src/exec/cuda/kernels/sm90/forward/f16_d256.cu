#include "exec/cuda/kernels/sm90/forward/instance.cuh"

namespace trunkline::cuda::sm90 {

KernelSet kernel_set_kF16_256(bool varies) {
  return varies ? instantiate<Half, 256, 2, true>() : instantiate<Half, 256, 2, false>();
}

}  // namespace trunkline::cuda::sm90
