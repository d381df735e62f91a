// The compiled kernels: (instruction set, head size, element type of K and V) -> functions.
#pragma once

#include "exec/cpu/kernel_api.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cpu {

/// Kernels of one instruction set, by head size and element type of K and V; null where there are none. Defined by
/// kernels_<isa>.cpp, which is compiled with that set's flags. `dtype` is DType as a number.
const KernelTable* portable_kernels(int head_dim, int dtype);
const KernelTable* avx2_kernels(int head_dim, int dtype);
const KernelTable* avx512_kernels(int head_dim, int dtype);

/// \throws Error(kUnsupported) naming the compiled head sizes.
const KernelTable& kernels_for(CpuIsa isa, std::int32_t head_dim, DType kv_dtype);

}  // namespace trunkline::cpu
