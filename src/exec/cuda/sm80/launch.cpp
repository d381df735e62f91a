#include "exec/cuda/sm80/launch.hpp"

#include <algorithm>
#include <iterator>

#include "exec/cuda/sm80/kernel_set.hpp"

namespace trunkline::cuda::sm80 {
namespace {

constexpr std::size_t kKernels = 1 + std::size(kTileRows);  // the persistent one first
static_assert(kKernels == 4);

struct Entry {
  Entry(DType type, std::int32_t dim, const KernelSet& set)
      : dtype(type),
        head_dim(dim),
        kernels{{set.persistent, kThreads, set.shared_bytes},
                {set.tiles[0], kThreads, set.shared_bytes},
                {set.tiles[1], kThreads, set.shared_bytes},
                {set.tiles[2], kThreads, set.shared_bytes}} {}

  DType dtype;
  std::int32_t head_dim;
  CompiledKernel kernels[kKernels];
};

Entry* find_entry(DType dtype, std::int32_t head_dim) {
#define TRUNKLINE_SM80_ENTRY(type, dim) {DType::type, dim, kernel_set_##type##_##dim()},
  static Entry entries[] = {TRUNKLINE_SM80_KERNELS(TRUNKLINE_SM80_ENTRY)};
#undef TRUNKLINE_SM80_ENTRY
  const auto found = std::find_if(std::begin(entries), std::end(entries), [&](const Entry& entry) {
    return entry.dtype == dtype && entry.head_dim == head_dim;
  });
  return found == std::end(entries) ? nullptr : found;
}

}  // namespace

bool supports(DType dtype, std::int32_t head_dim) {
  return find_entry(dtype, head_dim) != nullptr;
}

std::vector<TileShape> tiles(std::int32_t head_dim) {
  std::vector<TileShape> tiles;
  if (!supports(DType::kF16, head_dim)) return tiles;
  for (const std::int32_t rows : kTileRows) tiles.push_back({rows, stage_tokens(head_dim)});
  return tiles;
}

std::vector<KernelFacts> kernel_facts(DType dtype, std::int32_t head_dim) {
  std::vector<KernelFacts> result;
  Entry* entry = find_entry(dtype, head_dim);
  if (entry == nullptr) return result;
  for (std::size_t i = 0; i < kKernels; ++i) {
    const TileShape tile = i == 0 ? TileShape{} : TileShape{kTileRows[i - 1], stage_tokens(head_dim)};
    KernelFacts facts{};
    if (entry->kernels[i].facts(tile, facts) != cudaSuccess) return {};
    result.push_back(facts);
  }
  return result;
}

cudaError_t launch_persistent(const ForwardArgs& args, DType dtype, std::int32_t head_dim, std::int32_t sms,
                              cudaStream_t stream) {
  Entry* entry = find_entry(dtype, head_dim);
  if (entry == nullptr) return cudaErrorNotSupported;
  ForwardArgs all = args;
  all.tile_m = all.tile_n = 0;
  void* parameters[] = {&all};
  return entry->kernels[0].launch(parameters, sms, false, stream);
}

cudaError_t launch_tile(const ForwardArgs& args, DType dtype, std::int32_t head_dim, TileShape tile, std::int32_t sms,
                        cudaStream_t stream) {
  Entry* entry = find_entry(dtype, head_dim);
  if (entry == nullptr) return cudaErrorNotSupported;
  const auto* const rows = std::find(std::begin(kTileRows), std::end(kTileRows), tile.m);
  if (rows == std::end(kTileRows) || tile.n != stage_tokens(head_dim)) return cudaErrorInvalidValue;
  ForwardArgs one = args;
  one.tile_m = tile.m;
  one.tile_n = tile.n;
  void* parameters[] = {&one};
  return entry->kernels[1 + (rows - std::begin(kTileRows))].launch(parameters, sms, false, stream);
}

}  // namespace trunkline::cuda::sm80
