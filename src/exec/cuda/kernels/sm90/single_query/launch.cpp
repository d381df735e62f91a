#include "exec/cuda/kernels/sm90/single_query/launch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <mutex>

#include "base/host_device.hpp"
#include "exec/cuda/kernels/sm90/single_query/kernel_set.hpp"

namespace trunkline::cuda::single_query {
namespace {

constexpr std::int32_t kClusterSizes[] = {kMaxBlocks, 4, 2};
// Minimal share of the SMs: 64 of an H200's 132 reach the memory's bandwidth.
constexpr std::int32_t kMinTwentieths = 9;
constexpr int kFirstMajor = 9;

/// The configuration of a launch of `count` clusters.
class ClusterLaunch {
 public:
  ClusterLaunch(std::int32_t blocks, std::int32_t count, std::size_t shared_bytes, cudaStream_t stream) {
    attributes_[0].id = cudaLaunchAttributeClusterDimension;
    attributes_[0].val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
    attributes_[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes_[1].val.programmaticStreamSerializationAllowed = 1;
    config_.gridDim = dim3(static_cast<unsigned>(blocks * count));
    config_.blockDim = dim3(kThreads);
    config_.dynamicSmemBytes = shared_bytes;
    config_.stream = stream;
    config_.attrs = attributes_;
    config_.numAttrs = 2;
  }
  ClusterLaunch(const ClusterLaunch&) = delete;
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;
  const cudaLaunchConfig_t& config() const { return config_; }

 private:
  cudaLaunchAttribute attributes_[2] = {};
  cudaLaunchConfig_t config_{};
};

/// A kernel, shared by all executors of the process. Thread-safe.
class Kernel {
 public:
  Kernel(DType dtype, const KernelSet& set) : dtype_(dtype), set_(set) {}
  DType dtype() const { return dtype_; }
  const KernelSet& set() const { return set_; }

  /// Returns the maximum of clusters of kClusterSizes[size] that the present device holds at once; 0 if it has none.
  std::int32_t max_clusters(std::size_t size) {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= kMaxDevices) return 0;
    OnDevice& on = devices_[static_cast<std::size_t>(device)];
    std::call_once(on.once, [&] { prepare(device, on); });
    return on.max_clusters[size];
  }

 private:
  static constexpr int kMaxDevices = 64;

  struct OnDevice {
    std::once_flag once;
    std::array<std::int32_t, std::size(kClusterSizes)> max_clusters{};
  };

  void prepare(int device, OnDevice& on) const {
    int major = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess) return;
    if (major < kFirstMajor) return;
    const auto bytes = static_cast<int>(set_.shared_bytes);
    bool usable = true;
    for (const void* const kernel : {set_.whole, set_.any}) {
      usable &= cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess;
    }
    for (std::size_t size = 0; usable && size < std::size(kClusterSizes); ++size) {
      const ClusterLaunch launch(kClusterSizes[size], 1, set_.shared_bytes, nullptr);
      int count = 0;
      usable = cudaOccupancyMaxActiveClusters(&count, set_.whole, &launch.config()) == cudaSuccess;
      if (usable) on.max_clusters[size] = count;
    }
    if (!usable) cudaGetLastError();  // clears the error: an unsupported device is no error of the caller's
  }

  DType dtype_;
  KernelSet set_;
  std::array<OnDevice, kMaxDevices> devices_;
};

Kernel* find_kernel(DType dtype) {
#define TRUNKLINE_SINGLE_QUERY_ENTRY(type) {DType::type, kernel_set_##type()},
  static Kernel kernels[] = {TRUNKLINE_SINGLE_QUERY_KERNELS(TRUNKLINE_SINGLE_QUERY_ENTRY)};
#undef TRUNKLINE_SINGLE_QUERY_ENTRY
  const auto found = std::find_if(std::begin(kernels), std::end(kernels),
                                  [&](const Kernel& kernel) { return kernel.dtype() == dtype; });
  return found == std::end(kernels) ? nullptr : found;
}

}  // namespace

Division divide(const AttentionShape& shape, std::int32_t sms) {
  Kernel* const kernel = find_kernel(shape.q_dtype);
  if (kernel == nullptr || shape.kv_dtype != shape.q_dtype || shape.head_dim_qk != kDim || shape.group_size() > kRows)
    return {};
  for (std::size_t size = 0; size < std::size(kClusterSizes); ++size) {
    const std::int32_t blocks = kClusterSizes[size];
    const std::int32_t clusters = std::min(kernel->max_clusters(size), sms / blocks) / shape.kv_heads;
    const std::int32_t enough = ceil_div(kMinTwentieths * sms, 20 * shape.kv_heads * blocks);
    if (clusters > 0 && shape.kv_heads * blocks <= kCounters) return {blocks, std::min(clusters, enough)};
  }
  return {};
}

std::size_t scratch_bytes(const AttentionShape& shape, Division division) {
  if (division.clusters < 2) return 0;
  const std::size_t rows = static_cast<std::size_t>(division.clusters) * static_cast<std::size_t>(shape.q_heads);
  return rows * kRowUnits * sizeof(float4) + (rows + 1) / 2 * 2 * sizeof(RowState);
}

Scratch scratch_at(std::byte* scratch, const AttentionShape& shape, Division division, std::int32_t* arrived) {
  const std::size_t rows = static_cast<std::size_t>(division.clusters) * static_cast<std::size_t>(shape.q_heads);
  auto* const sums = reinterpret_cast<float4*>(scratch);
  return {sums, reinterpret_cast<RowState*>(sums + rows * kRowUnits), arrived};
}

cudaError_t launch(const SingleQueryArgs& args, DType dtype, Division division, cudaStream_t stream) {
  Kernel* const kernel = find_kernel(dtype);
  if (kernel == nullptr || division.blocks < 1) return cudaErrorNotSupported;
  const KernelSet& set = kernel->set();
  const ClusterLaunch launch(division.blocks, args.layer.kv_heads * division.clusters, set.shared_bytes, stream);
  void* parameters[] = {const_cast<SingleQueryArgs*>(&args)};
  const bool whole = args.pages.page_size % kSliceTokens == 0;
  return cudaLaunchKernelExC(&launch.config(), whole ? set.whole : set.any, parameters);
}

}  // namespace trunkline::cuda::single_query
