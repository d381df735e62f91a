#include "exec/cuda/sm90/instance.cuh"

namespace trunkline::cuda::sm90 {

KernelSet kernel_set_kBF16() {
  return instantiate<Bfloat>();
}

}  // namespace trunkline::cuda::sm90
