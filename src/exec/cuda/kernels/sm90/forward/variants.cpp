#include "exec/cuda/kernels/sm90/forward/variants.hpp"

#include "exec/cuda/kernels/sm90/forward/cache_maps.hpp"
#include "exec/cuda/kernels/sm90/forward/kernel_set.hpp"

namespace trunkline::cuda::sm90 {
namespace {

bool has_octets(std::int32_t page_size) {
  return !copies_runs(page_size);
}

}  // namespace

std::span<ForwardVariant> variants() {
#define TRUNKLINE_SM90_VARIANT(type, dim, merges, function, takes)                             \
  {DType::type,                                                                                \
   dim,                                                                                        \
   merges,                                                                                     \
   {kernel_set_##type##_##dim().function, kThreads, kernel_set_##type##_##dim().shared_bytes}, \
   takes},
#define TRUNKLINE_SM90_VARIANTS(type, dim)                     \
  TRUNKLINE_SM90_VARIANT(type, dim, false, kernel, has_octets) \
  TRUNKLINE_SM90_VARIANT(type, dim, true, merging, has_octets) \
  TRUNKLINE_SM90_VARIANT(type, dim, false, runs, copies_runs)  \
  TRUNKLINE_SM90_VARIANT(type, dim, true, runs_merging, copies_runs)
  static ForwardVariant variants[] = {TRUNKLINE_SM90_KERNELS(TRUNKLINE_SM90_VARIANTS)};
#undef TRUNKLINE_SM90_VARIANTS
#undef TRUNKLINE_SM90_VARIANT
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
