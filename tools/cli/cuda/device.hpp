// Device memory, streams and timing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/cuda/device.hpp"

namespace trunkline::cli {

using cuda::check_cuda;

class DeviceArray {
 public:
  explicit DeviceArray(std::size_t bytes);
  DeviceArray(const void* host, std::size_t bytes);
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  DeviceArray& operator=(DeviceArray&&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

class Stream {
 public:
  Stream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Within which the host launches a graph and records two events.
inline constexpr double kSpinUs = 50;

/// Puts work on a stream; it is captured.
using Enqueue = std::function<void(cudaStream_t)>;

enum class Caches { kCold, kWarm };

/// Replays captured work and takes its time on the GPU.
class ReplayTimer {
 public:
  /// For the calling thread's device.
  ReplayTimer();
  /// Microseconds between two events around each replay of what `enqueue` puts on a stream, after 3 that are not
  /// counted. Before each, 512 MiB are read, several times the L2 cache: nothing of the tensors, the plan or the page
  /// table is left in it, and nothing that would have to be written back while the replay reads; and the host is ahead
  /// of the device when the first event comes.
  std::vector<double> replay(const Stream& stream, int repeats, const Enqueue& enqueue);
  /// The same of several works, taken in turn. Warm: each timed replay follows one of the same work that is not timed,
  /// and a wait, in place of the reading.
  std::vector<std::vector<double>> replay_in_turn(const Stream& stream, int repeats, std::span<const Enqueue> works,
                                                  Caches caches = Caches::kCold);
  /// Puts what comes before a replay on a stream. \param work which of the works is replayed
  using BeforeReplay = std::function<void(std::size_t work, cudaStream_t stream)>;
  /// The same, with what `before` enqueues and a wait, for the host to get ahead, in place of the reading.
  std::vector<std::vector<double>> replay_in_turn(const Stream& stream, int repeats, std::span<const Enqueue> works,
                                                  const BeforeReplay& before);
  /// Enqueues the reading.
  void flush(const Stream& stream);
  /// Bytes of device memory that a timer holds.
  static std::size_t bytes();

 private:
  std::int32_t sms_ = 0;
  DeviceArray flush_;
  DeviceArray sink_;
};

}  // namespace trunkline::cli
