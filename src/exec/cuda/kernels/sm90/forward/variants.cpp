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
#define TRUNKLINE_SM90_VARIANT(set, type, bytes, dim, varies, merges, function, takes) \
  {DType::type, bytes, dim, varies, merges, {set.function, set.threads, set.shared_bytes}, takes},
#define TRUNKLINE_SM90_VARIANTS(set, type, bytes, dim, varies)                     \
  TRUNKLINE_SM90_VARIANT(set, type, bytes, dim, varies, false, kernel, has_octets) \
  TRUNKLINE_SM90_VARIANT(set, type, bytes, dim, varies, true, merging, has_octets) \
  TRUNKLINE_SM90_VARIANT(set, type, bytes, dim, varies, false, runs, copies_runs)  \
  TRUNKLINE_SM90_VARIANT(set, type, bytes, dim, varies, true, runs_merging, copies_runs)
#define TRUNKLINE_SM90_WIDE(type, dim)                                           \
  TRUNKLINE_SM90_VARIANTS(kernel_set_##type##_##dim(false), type, 2, dim, false) \
  TRUNKLINE_SM90_VARIANTS(kernel_set_##type##_##dim(true), type, 2, dim, true)
#define TRUNKLINE_SM90_NARROW(type, dim) TRUNKLINE_SM90_VARIANTS(kernel_set_fp8_##type##_##dim(), type, 1, dim, true)
  static ForwardVariant variants[] = {TRUNKLINE_SM90_KERNELS(TRUNKLINE_SM90_WIDE)
                                          TRUNKLINE_SM90_FP8_KERNELS(TRUNKLINE_SM90_NARROW)};
#undef TRUNKLINE_SM90_NARROW
#undef TRUNKLINE_SM90_WIDE
#undef TRUNKLINE_SM90_VARIANTS
#undef TRUNKLINE_SM90_VARIANT
  return variants;
}

cudaError_t enqueue(CompiledKernel& kernel, const ForwardArgs& args, const KernelShape& shape, std::int32_t sms,
                    cudaStream_t stream) {
  ForwardArgs copy = args;
  CacheMaps maps = make_cache_maps(args, shape);
  void* parameters[] = {&copy, &maps};
  const bool alone = args.tile_m == 0;  // kernels of single tiles may run side by side, on streams of their own
  return kernel.launch(parameters, sms, alone, stream);
}

}  // namespace trunkline::cuda::sm90
