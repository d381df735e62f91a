// Streams that fork from a caller's stream and join it again, made once. They may be forked inside a capture: they then
// become branches of its graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace trunkline::cuda {

class SideStreams {
 public:
  SideStreams() = default;
  ~SideStreams();
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

  /// Makes so many; allocates, so before any capture.
  void create(std::size_t count);
  std::size_t size() const { return streams_.size(); }

  /// Work enqueued to the i-th stream after this follows what the caller's stream has now.
  cudaStream_t fork(std::size_t i, cudaStream_t from);
  /// What the caller's stream gets after this follows the work of the i-th.
  void join(std::size_t i, cudaStream_t into);

 private:
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> forked_;
  std::vector<cudaEvent_t> done_;
};

}  // namespace trunkline::cuda
