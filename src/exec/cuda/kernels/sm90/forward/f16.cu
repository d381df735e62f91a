#include "exec/cuda/kernels/sm90/forward/instance.cuh"

namespace trunkline::cuda::sm90 {

KernelSet kernel_set_kF16() {
  return instantiate<Half>();
}

}  // namespace trunkline::cuda::sm90
