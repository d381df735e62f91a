#include "exec/cpu/instances.hpp"
#include "exec/cpu/kernel_table.hpp"

namespace trunkline::cpu {

const KernelTable* portable_kernels(int head_dim, int dtype) {
  return instance<Portable>(head_dim, dtype);
}

}  // namespace trunkline::cpu
