#include "cli/cuda/read_kernels.hpp"

namespace trunkline::cli {
namespace {

constexpr int kThreads = 512;
constexpr int kStreamCtas = 4;                                  // on each SM: all of its 2,048 threads
constexpr std::size_t kReadChunkBytes = std::size_t{32} << 10;  // that a CTA takes at once
constexpr std::uint32_t kNever = 0x9e3779b9;
constexpr std::size_t kLine = 64;

// Volatile: neither dropped nor done once for all passes. Cached in L2 alone.
__device__ __forceinline__ std::uint32_t load_folded(const uint4* from) {
  uint4 value;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value.x ^ value.y ^ value.z ^ value.w;
}

__global__ void __launch_bounds__(kThreads)
    stream_kernel(const uint4* data, std::size_t chunks, int passes, std::uint32_t* sink) {
  constexpr int kLoads = static_cast<int>(kReadChunkBytes / sizeof(uint4)) / kThreads;
  std::uint32_t folded = 0;
  for (int pass = 0; pass < passes; ++pass) {
    for (std::size_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
      const uint4* from = data + chunk * (kReadChunkBytes / sizeof(uint4)) + threadIdx.x;
      std::uint32_t parts[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) parts[i] = load_folded(from + i * kThreads);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) folded ^= parts[i];
    }
  }
  if (folded == kNever) *sink = folded;
}

/// \tparam kLoads that a thread begins before it waits; where there are several, `words` is a multiple of kLoads x
/// kThreads
template <int kLoads>
__global__ void __launch_bounds__(kThreads)
    chain_kernel(const uint4* buffer, std::size_t places, std::size_t words, int reads, std::uint32_t* sink) {
  std::uint64_t chain = blockIdx.x + 1;
  int found = 0;
  for (int read = 0; read < reads; ++read) {
    // Knuth's MMIX generator; what was found counts as nothing, but must be known.
    chain = chain * 6364136223846793005u + 1442695040888963407u + static_cast<std::uint64_t>(found);
    const uint4* from = buffer + (chain >> 33) % places * (kLine / sizeof(uint4));
    std::uint32_t folded = 0;
    for (std::size_t first = threadIdx.x; first < words; first += kLoads * kThreads) {
      std::uint32_t parts[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) parts[i] = load_folded(from + first + i * kThreads);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) folded ^= parts[i];
    }
    found = __syncthreads_or(folded == kNever);
  }
  if (found != 0) *sink = 1;
}

}  // namespace

std::size_t stream_round_bytes(std::int32_t sms) {
  return static_cast<std::size_t>(sms * kStreamCtas) * kReadChunkBytes;
}

cudaError_t launch_stream_read(const void* data, std::size_t bytes, int passes, std::int32_t sms, void* sink,
                               cudaStream_t stream) {
  stream_kernel<<<static_cast<unsigned>(sms * kStreamCtas), kThreads, 0, stream>>>(
      static_cast<const uint4*>(data), bytes / kReadChunkBytes, passes, static_cast<std::uint32_t*>(sink));
  return cudaGetLastError();
}

cudaError_t launch_chained_reads(const void* buffer, std::size_t buffer_bytes, std::size_t bytes, int reads,
                                 std::int32_t sms, void* sink, cudaStream_t stream) {
  const std::size_t places = (buffer_bytes - bytes) / kLine + 1;
  const std::size_t words = bytes / sizeof(uint4);
  const auto kernel = words % (8 * kThreads) == 0   ? chain_kernel<8>
                      : words % (2 * kThreads) == 0 ? chain_kernel<2>
                                                    : chain_kernel<1>;
  kernel<<<static_cast<unsigned>(sms), kThreads, 0, stream>>>(static_cast<const uint4*>(buffer), places, words, reads,
                                                              static_cast<std::uint32_t*>(sink));
  return cudaGetLastError();
}

}  // namespace trunkline::cli
