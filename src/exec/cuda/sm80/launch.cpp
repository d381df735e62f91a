#include "exec/cuda/sm80/launch.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>

#include "exec/cuda/sm80/kernel_set.hpp"

namespace trunkline::cuda::sm80 {
namespace {

constexpr std::size_t kKernels = 1 + std::size(kTileRows);  // the persistent one first
constexpr int kMaxDevices = 64;

/// What launches need to know of one device; found out once, as asking takes longer than launching.
struct DeviceFacts {
  std::once_flag once;
  cudaError_t error = cudaSuccess;
  std::array<int, kKernels> ctas_per_sm{};
};

struct Entry {
  DType dtype;
  std::int32_t head_dim;
  KernelSet kernels;
  std::array<DeviceFacts, kMaxDevices> devices;

  const void* kernel(std::size_t index) const { return index == 0 ? kernels.persistent : kernels.tiles[index - 1]; }
};

Entry* find_entry(DType dtype, std::int32_t head_dim) {
#define TRUNKLINE_SM80_ENTRY(type, dim) {DType::type, dim, kernel_set_##type##_##dim(), {}},
  static Entry entries[] = {TRUNKLINE_SM80_KERNELS(TRUNKLINE_SM80_ENTRY)};
#undef TRUNKLINE_SM80_ENTRY
  const auto found = std::find_if(std::begin(entries), std::end(entries), [&](const Entry& entry) {
    return entry.dtype == dtype && entry.head_dim == head_dim;
  });
  return found == std::end(entries) ? nullptr : found;
}

cudaError_t prepare(const Entry& entry, DeviceFacts& facts) {
  const auto shared_bytes = entry.kernels.shared_bytes;
  for (std::size_t i = 0; i < kKernels; ++i) {
    const cudaError_t error = cudaFuncSetAttribute(entry.kernel(i), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(shared_bytes));
    if (error != cudaSuccess) return error;
    const cudaError_t counted =
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&facts.ctas_per_sm[i], entry.kernel(i), kThreads, shared_bytes);
    if (counted != cudaSuccess) return counted;
    if (facts.ctas_per_sm[i] < 1) return cudaErrorLaunchOutOfResources;
  }
  return cudaSuccess;
}

/// Facts of the present device, on which the kernels may use the shared memory that they need from then on.
cudaError_t present_device(Entry& entry, DeviceFacts** facts) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (device >= kMaxDevices) return cudaErrorInvalidDevice;
  *facts = &entry.devices[static_cast<std::size_t>(device)];
  std::call_once((*facts)->once, [&] { (*facts)->error = prepare(entry, **facts); });
  return (*facts)->error;
}

cudaError_t launch(ForwardArgs args, DType dtype, std::int32_t head_dim, std::size_t kernel, std::int32_t sms,
                   cudaStream_t stream) {
  Entry* entry = find_entry(dtype, head_dim);
  if (entry == nullptr) return cudaErrorNotSupported;
  DeviceFacts* facts = nullptr;
  if (const cudaError_t error = present_device(*entry, &facts); error != cudaSuccess) return error;
  const auto ctas = static_cast<unsigned>(sms * facts->ctas_per_sm[kernel]);
  void* parameters[] = {&args};
  return cudaLaunchKernel(entry->kernel(kernel), dim3(ctas), dim3(kThreads), parameters, entry->kernels.shared_bytes,
                          stream);
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
  DeviceFacts* facts = nullptr;
  if (entry == nullptr || present_device(*entry, &facts) != cudaSuccess) return result;
  for (std::size_t i = 0; i < kKernels; ++i) {
    cudaFuncAttributes attributes{};
    if (cudaFuncGetAttributes(&attributes, entry->kernel(i)) != cudaSuccess) return {};
    const TileShape tile = i == 0 ? TileShape{} : TileShape{kTileRows[i - 1], stage_tokens(head_dim)};
    result.push_back({tile, kThreads, attributes.numRegs, attributes.sharedSizeBytes + entry->kernels.shared_bytes,
                      attributes.localSizeBytes, facts->ctas_per_sm[i]});
  }
  return result;
}

cudaError_t launch_persistent(const ForwardArgs& args, DType dtype, std::int32_t head_dim, std::int32_t sms,
                              cudaStream_t stream) {
  ForwardArgs all = args;
  all.tile_m = all.tile_n = 0;
  return launch(all, dtype, head_dim, 0, sms, stream);
}

cudaError_t launch_tile(const ForwardArgs& args, DType dtype, std::int32_t head_dim, TileShape tile, std::int32_t sms,
                        cudaStream_t stream) {
  const auto rows = std::find(std::begin(kTileRows), std::end(kTileRows), tile.m);
  if (rows == std::end(kTileRows) || tile.n != stage_tokens(head_dim)) return cudaErrorInvalidValue;
  ForwardArgs one = args;
  one.tile_m = tile.m;
  one.tile_n = tile.n;
  return launch(one, dtype, head_dim, 1 + static_cast<std::size_t>(rows - std::begin(kTileRows)), sms, stream);
}

}  // namespace trunkline::cuda::sm80
