#include "cli/measure.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace trunkline::cli {
namespace {

// Keeps the compiler from dropping the reads.
std::atomic<std::uint64_t> g_sink{0};

double nearest_rank(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace

Timing summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  const double median = samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  return {median, nearest_rank(samples, 0.1), nearest_rank(samples, 0.9)};
}

MachineProfile measure_machine(Workers& workers, int times) {
  MachineProfile best = measure_cpu_profile(workers);
  for (int i = 1; i < times; ++i) {
    const MachineProfile again = measure_cpu_profile(workers);
    best.read_bytes_per_us = std::max(best.read_bytes_per_us, again.read_bytes_per_us);
    best.flops_per_us = std::max(best.flops_per_us, again.flops_per_us);
  }
  return best;
}

std::size_t CacheFlusher::buffer_bytes(std::size_t llc_bytes) {
  // A quarter above the cache. A small virtual machine reports the host's whole cache, which is out of proportion.
  return std::clamp(llc_bytes + llc_bytes / 4, std::size_t{64} << 20, std::size_t{512} << 20);
}

CacheFlusher::CacheFlusher(std::size_t llc_bytes, Workers& workers)
    : workers_(workers), bytes_(buffer_bytes(llc_bytes)), buffer_(bytes_) {
  std::memset(buffer_.data(), 1, bytes_);  // untouched memory would all be one page of zeros
}

void CacheFlusher::read_part(void* context, int worker) {
  const auto& flusher = *static_cast<const CacheFlusher*>(context);
  constexpr std::size_t kLine = 64;
  const auto workers = static_cast<std::size_t>(flusher.workers_.size());
  const std::size_t lines = flusher.bytes_ / kLine;
  const std::size_t begin = lines * static_cast<std::size_t>(worker) / workers;
  const std::size_t end = lines * (static_cast<std::size_t>(worker) + 1) / workers;
  std::uint64_t sum = 0;
  for (std::size_t line = begin; line < end; ++line)
    sum += static_cast<std::uint64_t>(flusher.buffer_.data()[line * kLine]);
  g_sink.fetch_add(sum, std::memory_order_relaxed);
}

void CacheFlusher::flush() {
  workers_.run(&CacheFlusher::read_part, this);
}

}  // namespace trunkline::cli
