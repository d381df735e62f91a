#include "exec/cuda/kernels/sm90/forward/variants.hpp"

#include "exec/cuda/kernels/sm90/forward/cache_maps.hpp"
#include "exec/cuda/kernels/sm90/forward/kernel_set.hpp"

namespace trunkline::cuda::sm90 {

std::span<ForwardVariant> variants() {
#define TRUNKLINE_SM90_VARIANTS(type, dim)                                                                             \
  {DType::type, dim, false, {kernel_set_##type##_##dim().kernel, kThreads, kernel_set_##type##_##dim().shared_bytes}}, \
      {DType::type,                                                                                                    \
       dim,                                                                                                            \
       true,                                                                                                           \
       {kernel_set_##type##_##dim().merging, kThreads, kernel_set_##type##_##dim().shared_bytes}},
  static ForwardVariant variants[] = {TRUNKLINE_SM90_KERNELS(TRUNKLINE_SM90_VARIANTS)};
#undef TRUNKLINE_SM90_VARIANTS
  return variants;
}

cudaError_t enqueue(CompiledKernel& kernel, const ForwardArgs& args, DType dtype, std::int32_t head_dim,
                    std::int32_t sms, cudaStream_t stream) {
  ForwardArgs copy = args;
  CacheMaps maps = make_cache_maps(args, dtype, head_dim);
  void* parameters[] = {&copy, &maps};
  const bool alone = args.tile_m == 0;  // kernels of single tiles may run side by side, on streams of their own
  return kernel.launch(parameters, sms, alone, stream);
}

}  // namespace trunkline::cuda::sm90
