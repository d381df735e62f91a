#include "exec/cpu/kernel_table.hpp"

#include "base/check.hpp"

namespace trunkline::cpu {

const KernelTable& kernels_for(CpuIsa isa, std::int32_t head_dim, DType kv_dtype) {
  const auto type = static_cast<int>(kv_dtype);
  const KernelTable* table = nullptr;
  switch (isa) {
    case CpuIsa::kPortable: table = portable_kernels(head_dim, type); break;
#if defined(__x86_64__)
    case CpuIsa::kAvx2: table = avx2_kernels(head_dim, type); break;
    case CpuIsa::kAvx512: table = avx512_kernels(head_dim, type); break;
#else
    default: break;
#endif
  }
  if (table == nullptr) {
    fail(ErrorCode::kUnsupported, "no CPU kernel for head_dim ", head_dim, " and ", name_of(kv_dtype), " on ",
         name_of(isa), "; head_dim 64, 128 and 256 are compiled, for all element types");
  }
  return *table;
}

}  // namespace trunkline::cpu
