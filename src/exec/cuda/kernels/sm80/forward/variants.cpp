#include "exec/cuda/kernels/sm80/forward/variants.hpp"

#include "exec/cuda/kernels/sm80/forward/kernel_set.hpp"

namespace trunkline::cuda::sm80 {
namespace {

constexpr TileShape tile(std::size_t index, std::int32_t head_dim) {
  return {kTileRows[index], stage_tokens(head_dim)};
}

}  // namespace

std::span<ForwardVariant> variants() {
  static_assert(std::size(kTileRows) == 3);
#define TRUNKLINE_SM80_VARIANT(type, dim, tile, function, bytes) \
  {DType::type, dim, tile, false, {kernel_set_##type##_##dim().function, kThreads, kernel_set_##type##_##dim().bytes}},
#define TRUNKLINE_SM80_VARIANTS(type, dim)                                 \
  TRUNKLINE_SM80_VARIANT(type, dim, TileShape{}, persistent, shared_bytes) \
  TRUNKLINE_SM80_VARIANT(type, dim, tile(0, dim), tiles[0], shared_bytes)  \
  TRUNKLINE_SM80_VARIANT(type, dim, tile(1, dim), tiles[1], shared_bytes)  \
  TRUNKLINE_SM80_VARIANT(type, dim, tile(2, dim), tiles[2], shared_bytes)  \
  TRUNKLINE_SM80_VARIANT(type, dim, TileShape{}, compact, compact_bytes)
  static ForwardVariant variants[] = {TRUNKLINE_SM80_KERNELS(TRUNKLINE_SM80_VARIANTS)};
#undef TRUNKLINE_SM80_VARIANTS
#undef TRUNKLINE_SM80_VARIANT
  return variants;
}

cudaError_t enqueue(CompiledKernel& kernel, const ForwardArgs& args, DType, std::int32_t sms, cudaStream_t stream) {
  ForwardArgs copy = args;
  void* parameters[] = {&copy};
  return kernel.launch(parameters, sms, false, stream);
}

}  // namespace trunkline::cuda::sm80
