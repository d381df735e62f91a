#include "exec/cpu/instances.hpp"
#include "exec/cpu/kernel_table.hpp"

namespace trunkline::cpu {

const KernelTable* avx512_kernels(int head_dim, int dtype) {
  return instance<Avx512>(head_dim, dtype);
}

}  // namespace trunkline::cpu
