#include "exec/cuda/kernels/sm80/forward/variants.hpp"

#include "exec/cuda/kernels/sm80/forward/kernel_set.hpp"

namespace trunkline::cuda::sm80 {

std::span<ForwardVariant> variants() {
#define TRUNKLINE_SM80_VARIANT(type, dim, function, bytes) \
  {DType::type, 2,     dim,                                \
   true,        false, {kernel_set_##type##_##dim().function, kThreads, kernel_set_##type##_##dim().bytes}},
#define TRUNKLINE_SM80_VARIANTS(type, dim)                    \
  TRUNKLINE_SM80_VARIANT(type, dim, persistent, shared_bytes) \
  TRUNKLINE_SM80_VARIANT(type, dim, compact, compact_bytes)
  static ForwardVariant variants[] = {TRUNKLINE_SM80_KERNELS(TRUNKLINE_SM80_VARIANTS)};
#undef TRUNKLINE_SM80_VARIANTS
#undef TRUNKLINE_SM80_VARIANT
  return variants;
}

cudaError_t enqueue(CompiledKernel& kernel, const ForwardArgs& args, const KernelShape&, std::int32_t sms,
                    cudaStream_t stream) {
  ForwardArgs copy = args;
  void* parameters[] = {&copy};
  return kernel.launch(parameters, sms, false, stream);
}

}  // namespace trunkline::cuda::sm80
