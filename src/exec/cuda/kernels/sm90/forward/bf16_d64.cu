#include "exec/cuda/kernels/sm90/forward/instance.cuh"

namespace trunkline::cuda::sm90 {

KernelSet kernel_set_kBF16_64(bool varies) {
  return varies ? instantiate<Bfloat, 64, 2, true>() : instantiate<Bfloat, 64, 2, false>();
}

}  // namespace trunkline::cuda::sm90
