#include "exec/cuda/step/side_streams.hpp"

#include "exec/cuda/device.hpp"

namespace trunkline::cuda {

SideStreams::~SideStreams() {
  for (const cudaEvent_t event : forked_) cudaEventDestroy(event);
  for (const cudaEvent_t event : done_) cudaEventDestroy(event);
  for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

void SideStreams::create(std::size_t count) {
  while (streams_.size() < count) {
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    streams_.push_back(stream);
    for (std::vector<cudaEvent_t>* events : {&forked_, &done_}) {
      cudaEvent_t event = nullptr;
      check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
      events->push_back(event);
    }
  }
}

cudaStream_t SideStreams::fork(std::size_t i, cudaStream_t from) {
  check_cuda(cudaEventRecord(forked_[i], from), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(streams_[i], forked_[i], 0), "cudaStreamWaitEvent");
  return streams_[i];
}

void SideStreams::join(std::size_t i, cudaStream_t into) {
  check_cuda(cudaEventRecord(done_[i], streams_[i]), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(into, done_[i], 0), "cudaStreamWaitEvent");
}

}  // namespace trunkline::cuda
