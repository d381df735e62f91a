#include "exec/cpu/instances.hpp"
#include "exec/cpu/kernel_table.hpp"

namespace trunkline::cpu {

const KernelTable* avx2_kernels(int head_dim, int dtype) {
  return instance<Avx2>(head_dim, dtype);
}

}  // namespace trunkline::cpu
