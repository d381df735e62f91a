// Launches of forward kernels, for all families.
#include <algorithm>

#include "exec/cuda/kernels/kernel_families.hpp"

namespace trunkline::cuda {
namespace {

bool serves(const ForwardVariant& variant, const KernelShape& shape) {
  const bool narrow = size_of(shape.kv_dtype) == 1;
  if (!narrow && shape.kv_dtype != shape.q_dtype) return false;
  return variant.q_dtype == shape.q_dtype && variant.kv_bytes == (narrow ? 1 : 2) && variant.head_dim == shape.head_dim;
}

// Prefers a kernel that merges exactly if merging is asked for to any other that serves. Of these it returns the first.
ForwardVariant* find_variant(const KernelFamily& family, const KernelShape& shape, const ForwardArgs& args,
                             std::size_t shared_bytes) {
  const bool merging = args.arrived != nullptr;
  ForwardVariant* best = nullptr;
  for (ForwardVariant& variant : family.variants()) {
    if (!serves(variant, shape)) continue;
    if (variant.takes_pages != nullptr && !variant.takes_pages(args.pages.page_size)) continue;
    if (args.layer.varies() && !variant.varies) continue;
    if (best != nullptr && (best->merging == merging || variant.merging != merging)) continue;
    if (variant.kernel.shared_bytes() <= shared_bytes && variant.kernel.runs_here()) best = &variant;
  }
  return best;
}

}  // namespace

bool KernelFamily::supports(const KernelShape& shape) const {
  const std::span<const ForwardVariant> all = variants();
  return std::any_of(all.begin(), all.end(), [&](const ForwardVariant& variant) { return serves(variant, shape); });
}

std::vector<TileShape> KernelFamily::tiles(std::int32_t head_dim) const {
  std::vector<TileShape> tiles;
  if (!supports({DType::kF16, DType::kF16, head_dim})) return tiles;
  for (const std::int32_t rows : tile_rows(head_dim)) tiles.push_back({rows, tile_tokens(head_dim)});
  return tiles;
}

std::vector<KernelFacts> KernelFamily::facts(const KernelShape& shape) const {
  std::vector<KernelFacts> result;
  for (ForwardVariant& variant : variants()) {
    if (!serves(variant, shape) || !variant.kernel.runs_here()) continue;
    KernelFacts facts{};
    if (variant.kernel.facts(facts) != cudaSuccess) return {};
    result.push_back(facts);
  }
  return result;
}

cudaError_t KernelFamily::launch(const ForwardArgs& args, const KernelShape& shape, const LaunchLimits& limits,
                                 cudaStream_t stream) const {
  ForwardVariant* const variant = find_variant(*this, shape, args, limits.shared_bytes);
  if (variant == nullptr) return cudaErrorNotSupported;
  return enqueue(variant->kernel, args, shape, limits.sms, stream);
}

}  // namespace trunkline::cuda
