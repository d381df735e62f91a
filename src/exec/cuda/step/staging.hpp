// Pinned staging memory for uploads: two buffers take turns, so that one is written while the other is still being
// copied.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace trunkline::cuda {

class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Returns the next buffer, of at least `bytes`, after its last copy is done. Allocates only if the buffer is too
  /// small.
  std::byte* acquire(std::size_t bytes);
  /// Enqueues the copy of the acquired buffer's first bytes to the device.
  void copy_to(void* device, std::size_t bytes, cudaStream_t stream);

 private:
  struct Buffer {
    std::byte* data = nullptr;
    std::size_t size = 0;
    cudaEvent_t copied = nullptr;
  };
  Buffer buffers_[2];
  int turn_ = 0;
};

}  // namespace trunkline::cuda
