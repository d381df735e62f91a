#include "cli/cuda/device.hpp"

#include <deque>
#include <utility>

#include "base/check.hpp"

namespace trunkline::cli {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{512} << 20;
constexpr int kWarmUps = 3;

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class Graph {
 public:
  Graph(cudaStream_t stream, const Enqueue& enqueue) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    enqueue(stream);
    check(cudaStreamEndCapture(stream, &graph_), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&exec_, graph_, 0), "cudaGraphInstantiate");
  }
  ~Graph() {
    cudaGraphExecDestroy(exec_);
    cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fail(ErrorCode::kInternal, what, " failed: ", cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

DeviceArray::DeviceArray(std::size_t bytes) {
  check(cudaMalloc(&data_, bytes > 0 ? bytes : 1), "cudaMalloc");
}

DeviceArray::DeviceArray(const void* host, std::size_t bytes) : DeviceArray(bytes) {
  check(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

ColdTimer::ColdTimer() : flush_(kFlushBytes) {}

std::size_t ColdTimer::bytes() {
  return kFlushBytes;
}

void ColdTimer::flush(const Stream& stream) {
  check(cudaMemsetAsync(flush_.data(), 0, kFlushBytes, stream.get()), "cudaMemsetAsync");
}

std::vector<double> ColdTimer::replay(const Stream& stream, int repeats, const Enqueue& enqueue) {
  return std::move(replay_in_turn(stream, repeats, {&enqueue, 1}).front());
}

std::vector<std::vector<double>> ColdTimer::replay_in_turn(const Stream& stream, int repeats,
                                                           std::span<const Enqueue> works, Caches caches) {
  std::deque<Graph> graphs;
  for (const Enqueue& work : works) graphs.emplace_back(stream.get(), work);
  const Event begin;
  const Event end;
  std::vector<std::vector<double>> us(works.size());
  for (int i = -kWarmUps; i < repeats; ++i) {
    for (std::size_t work = 0; work < works.size(); ++work) {
      if (caches == Caches::kCold) {
        flush(stream);
      } else {
        graphs[work].launch(stream.get());
      }
      check(cudaEventRecord(begin.get(), stream.get()), "cudaEventRecord");
      graphs[work].launch(stream.get());
      check(cudaEventRecord(end.get(), stream.get()), "cudaEventRecord");
      check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
      if (i >= 0) us[work].push_back(static_cast<double>(milliseconds) * 1e3);
    }
  }
  return us;
}

}  // namespace trunkline::cli
