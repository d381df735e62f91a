#include "exec/cuda/step/staging.hpp"

#include <algorithm>

#include "exec/cuda/device.hpp"

namespace trunkline::cuda {
namespace {

constexpr std::size_t kMinBytes = 64 << 10;

}  // namespace

Staging::~Staging() {
  for (Buffer& buffer : buffers_) {
    if (buffer.copied != nullptr) {
      cudaEventSynchronize(buffer.copied);
      cudaEventDestroy(buffer.copied);
    }
    cudaFreeHost(buffer.data);
  }
}

std::byte* Staging::acquire(std::size_t bytes) {
  Buffer& buffer = buffers_[turn_];
  if (buffer.copied == nullptr) {
    check_cuda(cudaEventCreateWithFlags(&buffer.copied, cudaEventDisableTiming), "cudaEventCreate");
  }
  check_cuda(cudaEventSynchronize(buffer.copied), "cudaEventSynchronize");
  if (buffer.size < bytes) {
    check_cuda(cudaFreeHost(buffer.data), "cudaFreeHost");
    buffer.data = nullptr;
    buffer.size = 0;
    const std::size_t size = std::max({bytes + bytes / 2, kMinBytes});
    void* data = nullptr;
    check_cuda(cudaMallocHost(&data, size), "cudaMallocHost of the upload's staging memory");
    buffer.data = static_cast<std::byte*>(data);
    buffer.size = size;
  }
  return buffer.data;
}

void Staging::copy_to(void* device, std::size_t bytes, cudaStream_t stream) {
  Buffer& buffer = buffers_[turn_];
  check_cuda(cudaMemcpyAsync(device, buffer.data, bytes, cudaMemcpyHostToDevice, stream), "copying the plan");
  check_cuda(cudaEventRecord(buffer.copied, stream), "cudaEventRecord");
  turn_ ^= 1;
}

}  // namespace trunkline::cuda
