// Launches of forward kernels, the same for all families.
#include <algorithm>

#include "exec/cuda/kernels/kernel_families.hpp"

namespace trunkline::cuda {
namespace {

bool serves(const ForwardVariant& variant, DType dtype, std::int32_t head_dim) {
  return variant.dtype == dtype && variant.head_dim == head_dim;
}

// One that is compiled for the tile, and for merging or not, before one that serves all.
ForwardVariant* find_variant(const KernelFamily& family, DType dtype, std::int32_t head_dim, TileShape tile,
                             bool merging, std::size_t shared_bytes) {
  const auto fit = [&](const ForwardVariant& variant) {
    return (variant.tile == tile ? 2 : 0) + (variant.merging == merging ? 1 : 0);
  };
  ForwardVariant* best = nullptr;
  for (ForwardVariant& variant : family.variants()) {
    if (!serves(variant, dtype, head_dim) || (variant.tile != tile && variant.tile != TileShape{})) continue;
    if (best != nullptr && fit(variant) <= fit(*best)) continue;
    if (variant.kernel.shared_bytes() <= shared_bytes && variant.kernel.runs_here()) best = &variant;
  }
  return best;
}

cudaError_t launch(const KernelFamily& family, const ForwardArgs& args, DType dtype, std::int32_t head_dim,
                   TileShape tile, const LaunchLimits& limits, cudaStream_t stream) {
  const bool merging = args.arrived != nullptr;
  ForwardVariant* const variant = find_variant(family, dtype, head_dim, tile, merging, limits.shared_bytes);
  if (variant == nullptr) return cudaErrorNotSupported;
  ForwardArgs of_tile = args;
  of_tile.tile_m = tile.m;
  of_tile.tile_n = tile.n;
  return family.enqueue(variant->kernel, of_tile, dtype, limits.sms, stream);
}

}  // namespace

bool KernelFamily::supports(DType dtype, std::int32_t head_dim) const {
  const std::span<const ForwardVariant> all = variants();
  return std::any_of(all.begin(), all.end(),
                     [&](const ForwardVariant& variant) { return serves(variant, dtype, head_dim); });
}

std::vector<TileShape> KernelFamily::tiles(std::int32_t head_dim) const {
  std::vector<TileShape> tiles;
  if (!supports(DType::kF16, head_dim)) return tiles;
  for (const std::int32_t rows : tile_rows) tiles.push_back({rows, tile_tokens(head_dim)});
  return tiles;
}

std::vector<KernelFacts> KernelFamily::facts(DType dtype, std::int32_t head_dim) const {
  std::vector<KernelFacts> result;
  for (ForwardVariant& variant : variants()) {
    if (!serves(variant, dtype, head_dim) || !variant.kernel.runs_here()) continue;
    KernelFacts facts{};
    if (variant.kernel.facts(variant.tile, facts) != cudaSuccess) return {};
    result.push_back(facts);
  }
  return result;
}

cudaError_t KernelFamily::launch_persistent(const ForwardArgs& args, DType dtype, std::int32_t head_dim,
                                            const LaunchLimits& limits, cudaStream_t stream) const {
  return launch(*this, args, dtype, head_dim, {}, limits, stream);
}

cudaError_t KernelFamily::launch_tile(const ForwardArgs& args, DType dtype, std::int32_t head_dim, TileShape tile,
                                      const LaunchLimits& limits, cudaStream_t stream) const {
  const std::vector<TileShape> compiled = tiles(head_dim);
  if (std::find(compiled.begin(), compiled.end(), tile) == compiled.end()) return cudaErrorInvalidValue;
  return launch(*this, args, dtype, head_dim, tile, limits, stream);
}

}  // namespace trunkline::cuda
