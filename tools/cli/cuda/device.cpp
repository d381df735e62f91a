#include "cli/cuda/device.hpp"

#include <deque>
#include <utility>

#include "base/check.hpp"
#include "cli/cuda/read_kernels.hpp"
#include "cli/cuda/replay_kernels.hpp"

namespace trunkline::cli {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{512} << 20;
constexpr int kWarmUps = 3;

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
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
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    enqueue(stream);
    check_cuda(cudaStreamEndCapture(stream, &graph_), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&exec_, graph_, 0), "cudaGraphInstantiate");
  }
  ~Graph() {
    cudaGraphExecDestroy(exec_);
    cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const { check_cuda(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch"); }

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
      check_cuda(cudaEventRecord(begin.get(), stream.get()), "cudaEventRecord");
      graphs[work].launch(stream.get());
      check_cuda(cudaEventRecord(end.get(), stream.get()), "cudaEventRecord");
      check_cuda(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
      float milliseconds = 0;
      check_cuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
      if (i >= 0) us[work].push_back(static_cast<double>(milliseconds) * 1e3);
    }
  }
  return us;
}

}  // namespace

DeviceArray::DeviceArray(std::size_t bytes) {
  check_cuda(cudaMalloc(&data_, bytes > 0 ? bytes : 1), "cudaMalloc");
}

DeviceArray::DeviceArray(const void* host, std::size_t bytes) : DeviceArray(bytes) {
  check_cuda(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

ReplayTimer::ReplayTimer() : flush_(kFlushBytes), sink_(sizeof(std::uint32_t)) {
  int device = 0;
  int sms = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  sms_ = sms;
  check_cuda(cudaMemset(flush_.data(), 0, kFlushBytes), "cudaMemset");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::size_t ReplayTimer::bytes() {
  return kFlushBytes;
}

void ReplayTimer::flush(const Stream& stream) {
  check_cuda(launch_stream_read(flush_.data(), kFlushBytes, 1, sms_, sink_.data(), stream.get()), "launching a read");
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
      check_cuda(launch_spin(kSpinUs, stream.get()), "launching a wait");
    }
  });
}

std::vector<std::vector<double>> ReplayTimer::replay_in_turn(const Stream& stream, int repeats,
                                                             std::span<const Enqueue> works,
                                                             const BeforeReplay& before) {
  const std::deque<Graph> graphs = capture(stream, works);
  return time_replays(stream, repeats, graphs, [&](std::size_t work) {
    before(work, stream.get());
    check_cuda(launch_spin(kSpinUs, stream.get()), "launching a wait");
  });
}

}  // namespace trunkline::cli
