// Streams and captured graphs of a test's own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "cuda/device_case.hpp"

namespace trunkline::testing {

/// A non-blocking stream.
class OwnStream {
 public:
  OwnStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A graph of the work that `work` enqueues on the stream.
class Graph {
 public:
  template <class Work>
  Graph(cudaStream_t stream, Work&& work) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work();
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&executable_, graph, 0));
    check(cudaGraphGetNodes(graph, nullptr, &nodes_));
    check(cudaGraphDestroy(graph));
  }
  ~Graph() { cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) { check(cudaGraphLaunch(executable_, stream)); }
  std::size_t nodes() const { return nodes_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
  std::size_t nodes_ = 0;
};

}  // namespace trunkline::testing
