#include "cli/cuda/device_reads.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "cli/cuda/read_kernels.hpp"
#include "cli/measure.hpp"

namespace trunkline::cli {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 30;
constexpr int kRepeats = 15;

}  // namespace

DeviceReads::DeviceReads(ReplayTimer& timer, const Stream& stream, std::int32_t sms)
    : timer_(timer), stream_(stream), sms_(sms), buffer_(kBufferBytes), sink_(sizeof(std::uint32_t)) {
  check_cuda(cudaMemset(buffer_.data(), 1, kBufferBytes), "cudaMemset");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

double DeviceReads::stream_us(std::size_t bytes, int passes, Caches caches) {
  const Enqueue read = [&](cudaStream_t on) {
    check_cuda(launch_stream_read(buffer_.data(), bytes, passes, sms_, sink_.data(), on), "launching a streaming read");
  };
  read(stream_.get());  // loads the kernel, which is not for a capture
  check_cuda(cudaStreamSynchronize(stream_.get()), "a streaming read");
  return summarize(std::move(timer_.replay_in_turn(stream_, kRepeats, {&read, 1}, caches).front())).us;
}

TransferFit DeviceReads::stream_rate() {
  std::vector<TransferTime> times;
  const std::size_t round = stream_round_bytes(sms_);
  for (const std::size_t parts : {std::size_t{4}, std::size_t{2}, std::size_t{1}}) {
    const std::size_t bytes = kBufferBytes / parts / round * round;
    times.push_back({bytes, stream_us(bytes, 1, Caches::kCold)});
  }
  return fit_transfers(times);
}

double DeviceReads::cache_rate(std::int64_t l2_bytes) {
  constexpr int kFew = 20;
  constexpr int kMany = 60;
  // About a quarter, which fits also where each half of the chip keeps a copy of its own.
  const std::size_t round = stream_round_bytes(sms_);
  const auto l2 = static_cast<std::size_t>(std::max<std::int64_t>(l2_bytes, 0));
  const std::size_t bytes = std::max(std::min(l2, kBufferBytes) / 4 / round, std::size_t{1}) * round;
  if (bytes > l2 / 2) return 0;
  const double more_us = stream_us(bytes, kMany, Caches::kWarm) - stream_us(bytes, kFew, Caches::kWarm);
  return more_us > 0 ? static_cast<double>(bytes) * (kMany - kFew) / more_us : 0;
}

double DeviceReads::chain_us(std::size_t bytes, int reads) {
  const Enqueue read = [&](cudaStream_t on) {
    check_cuda(launch_chained_reads(buffer_.data(), kBufferBytes, bytes, reads, sms_, sink_.data(), on),
               "launching chained reads");
  };
  read(stream_.get());
  check_cuda(cudaStreamSynchronize(stream_.get()), "chained reads");
  return summarize(timer_.replay(stream_, kRepeats, read)).us;
}

std::vector<TransferTime> DeviceReads::transfers() {
  constexpr std::size_t kMin = 64;
  constexpr std::size_t kMax = std::size_t{1} << 20;
  constexpr std::size_t kFewReads = 8;
  constexpr std::size_t kManyReads = 256;  // of small runs, so that the launch and the clock's steps do not matter
  std::vector<TransferTime> times;
  for (std::size_t bytes = kMin; bytes <= kMax; bytes *= 4) {
    const auto reads = static_cast<int>(std::clamp(4 * kMax / bytes, kFewReads, kManyReads));
    const double us = chain_us(bytes, 2 * reads) - chain_us(bytes, reads);
    times.push_back({bytes, std::max(us / reads, 1e-3)});
  }
  return times;
}

}  // namespace trunkline::cli
