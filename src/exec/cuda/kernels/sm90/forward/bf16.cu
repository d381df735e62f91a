#include "exec/cuda/kernels/sm90/forward/instance.cuh"

namespace trunkline::cuda::sm90 {

KernelSet kernel_set_kBF16() {
  return instantiate<Bfloat>();
}

}  // namespace trunkline::cuda::sm90
