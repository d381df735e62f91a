#include "exec/cuda/sm90/launch.hpp"

#include <algorithm>
#include <iterator>

#include "exec/cuda/sm90/cache_maps.hpp"
#include "exec/cuda/sm90/kernel_set.hpp"

namespace trunkline::cuda::sm90 {
namespace {

struct Entry {
  Entry(DType type, const KernelSet& set)
      : dtype(type), kernel(set.kernel, kThreads, set.shared_bytes), merging(set.merging, kThreads, set.shared_bytes) {}

  DType dtype;
  CompiledKernel kernel;
  CompiledKernel merging;
};

Entry* find_entry(DType dtype, std::int32_t head_dim) {
#define TRUNKLINE_SM90_ENTRY(type) {DType::type, kernel_set_##type()},
  static Entry entries[] = {TRUNKLINE_SM90_KERNELS(TRUNKLINE_SM90_ENTRY)};
#undef TRUNKLINE_SM90_ENTRY
  if (head_dim != kDim) return nullptr;
  const auto found =
      std::find_if(std::begin(entries), std::end(entries), [&](const Entry& entry) { return entry.dtype == dtype; });
  return found == std::end(entries) ? nullptr : found;
}

// \param tile 0 x 0: items of all tiles
cudaError_t launch(const ForwardArgs& args, DType dtype, std::int32_t head_dim, TileShape tile, std::int32_t sms,
                   cudaStream_t stream) {
  Entry* entry = find_entry(dtype, head_dim);
  if (entry == nullptr) return cudaErrorNotSupported;
  CompiledKernel& kernel = args.arrived != nullptr ? entry->merging : entry->kernel;
  ForwardArgs some = args;
  some.tile_m = tile.m;
  some.tile_n = tile.n;
  CacheMaps maps = make_cache_maps(args, dtype);
  void* parameters[] = {&some, &maps};
  const bool alone = tile.m == 0;  // kernels of single tiles may run side by side, on streams of their own
  return kernel.launch(parameters, sms, alone, stream);
}

}  // namespace

bool supports(DType dtype, std::int32_t head_dim) {
  return find_entry(dtype, head_dim) != nullptr;
}

std::vector<TileShape> tiles(std::int32_t head_dim) {
  std::vector<TileShape> tiles;
  if (!supports(DType::kF16, head_dim)) return tiles;
  for (const std::int32_t rows : kTileRows) tiles.push_back({rows, kStageTokens});
  return tiles;
}

std::vector<KernelFacts> kernel_facts(DType dtype, std::int32_t head_dim) {
  Entry* entry = find_entry(dtype, head_dim);
  KernelFacts facts{};
  KernelFacts merging{};
  if (entry == nullptr || entry->kernel.facts({}, facts) != cudaSuccess ||
      entry->merging.facts({}, merging) != cudaSuccess)
    return {};
  return {facts, merging};
}

cudaError_t launch_persistent(const ForwardArgs& args, DType dtype, std::int32_t head_dim, std::int32_t sms,
                              cudaStream_t stream) {
  return launch(args, dtype, head_dim, {}, sms, stream);
}

cudaError_t launch_tile(const ForwardArgs& args, DType dtype, std::int32_t head_dim, TileShape tile, std::int32_t sms,
                        cudaStream_t stream) {
  const std::vector<TileShape> compiled = tiles(head_dim);
  if (std::find(compiled.begin(), compiled.end(), tile) == compiled.end()) return cudaErrorInvalidValue;
  return launch(args, dtype, head_dim, tile, sms, stream);
}

}  // namespace trunkline::cuda::sm90
