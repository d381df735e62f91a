#include "cli/cuda/device.hpp"

#include <deque>
#include <utility>

#include "base/check.hpp"
#include "cli/cuda/read_kernels.hpp"

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

std::deque<Graph> capture(const Stream& stream, std::span<const Enqueue> works) {
  std::deque<Graph> graphs;
  for (const Enqueue& work : works) graphs.emplace_back(stream.get(), work);
  return graphs;
}

std::vector<std::vector<double>> time_replays(const Stream& stream, int repeats, const std::deque<Graph>& graphs,
                                              const std::function<void(std::size_t)>& before) {
  const Event begin;
  const Event end;
  std::vector<std::vector<double>> us(graphs.size());
  for (int i = -kWarmUps; i < repeats; ++i) {
    for (std::size_t work = 0; work < graphs.size(); ++work) {
      before(work);
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

ReplayTimer::ReplayTimer() : flush_(kFlushBytes), sink_(sizeof(std::uint32_t)) {
  int device = 0;
  int sms = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  sms_ = sms;
  check(cudaMemset(flush_.data(), 0, kFlushBytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::size_t ReplayTimer::bytes() {
  return kFlushBytes;
}

void ReplayTimer::flush(const Stream& stream) {
  check(launch_stream_read(flush_.data(), kFlushBytes, 1, sms_, sink_.data(), stream.get()), "launching a read");
}

std::vector<double> ReplayTimer::replay(const Stream& stream, int repeats, const Enqueue& enqueue) {
  return std::move(replay_in_turn(stream, repeats, {&enqueue, 1}).front());
}

std::vector<std::vector<double>> ReplayTimer::replay_in_turn(const Stream& stream, int repeats,
                                                             std::span<const Enqueue> works, Caches caches) {
  const std::deque<Graph> graphs = capture(stream, works);
  return time_replays(stream, repeats, graphs, [&](std::size_t work) {
    if (caches == Caches::kCold) {
      flush(stream);
    } else {
      graphs[work].launch(stream.get());
    }
  });
}

std::vector<std::vector<double>> ReplayTimer::replay_in_turn(const Stream& stream, int repeats,
                                                             std::span<const Enqueue> works, const Enqueue& before) {
  const std::deque<Graph> graphs = capture(stream, works);
  return time_replays(stream, repeats, graphs, [&](std::size_t) { before(stream.get()); });
}

}  // namespace trunkline::cli
