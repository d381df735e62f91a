#include <algorithm>

#include "cli/cuda/replay_kernels.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cli {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMaxBlocks = 4096;

__global__ void spin_kernel(std::uint64_t ns) {
  const std::uint64_t begin = cuda::global_time();
  while (cuda::global_time() - begin < ns) {
  }
}

__global__ void __launch_bounds__(kThreads) shift_kernel(const std::int32_t* from, std::int32_t* to, std::size_t count,
                                                         std::int32_t limit, std::int32_t offset) {
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    to[i] = from[i] < limit ? from[i] + offset : from[i];
  }
}

}  // namespace

cudaError_t launch_spin(double us, cudaStream_t stream) {
  spin_kernel<<<1, 1, 0, stream>>>(static_cast<std::uint64_t>(us * 1e3));
  return cudaGetLastError();
}

cudaError_t launch_shift_ids(const std::int32_t* from, std::int32_t* to, std::size_t count, std::int32_t limit,
                             std::int32_t offset, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks));
  shift_kernel<<<blocks, kThreads, 0, stream>>>(from, to, count, limit, offset);
  return cudaGetLastError();
}

}  // namespace trunkline::cli
