// Streams that fork from a caller's stream and join it again; they are created once. Inside a capture they become
// branches of its graph.
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

  /// Creates up to `count` streams. Allocates, so it must be called before any capture.
  void create(std::size_t count);
  std::size_t size() const { return streams_.size(); }

  /// Orders later work of the i-th stream after the present work of the caller's stream. \return the i-th stream
  cudaStream_t fork(std::size_t i, cudaStream_t from);
  /// Orders later work of the caller's stream after the present work of the i-th stream.
  void join(std::size_t i, cudaStream_t into);

 private:
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> forked_;
  std::vector<cudaEvent_t> done_;
};

}  // namespace trunkline::cuda
