#include "machine/cpu_transfer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.hpp"
#include "base/random.hpp"
#include "machine/huge_buffer.hpp"

namespace trunkline {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr std::size_t kLineWords = kLine / sizeof(std::uint64_t);

std::uint64_t read_words(std::span<const std::uint64_t> words) {
  std::uint64_t sums[kLineWords] = {};
  for (std::size_t i = 0; i < words.size(); i += kLineWords) {
    for (std::size_t j = 0; j < kLineWords; ++j) sums[j] += words[i + j];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

/// Median time of one transfer, by blocks that are long against the clock's own cost.
double time_transfer(std::span<const std::uint64_t> words, std::size_t bytes, std::uint64_t& chain) {
  constexpr std::size_t kBlocks = 31;
  const std::size_t reads = std::clamp<std::size_t>(kMaxBytes / bytes, 4, 64);
  const std::size_t run = bytes / sizeof(std::uint64_t);
  const std::size_t places = (words.size() - run) / kLineWords;
  std::vector<double> us;
  for (std::size_t block = 0; block < kBlocks; ++block) {
    const auto start = Clock::now();
    for (std::size_t read = 0; read < reads; ++read) {
      const std::size_t place = mix_bits(chain) % places * kLineWords;
      chain += read_words(words.subspan(place, run)) + 1;
    }
    us.push_back(microseconds_since(start) / static_cast<double>(reads));
  }
  std::nth_element(us.begin(), us.begin() + kBlocks / 2, us.end());
  return us[kBlocks / 2];
}

}  // namespace

std::vector<TransferTime> measure_transfers(std::size_t buffer_bytes) {
  const HugeBuffer buffer(std::max(buffer_bytes, 4 * kMaxBytes));
  const std::span<std::uint64_t> words = buffer.words();
  std::memset(words.data(), 1, words.size_bytes());
  std::vector<TransferTime> times;
  std::uint64_t chain = 1;
  for (std::size_t bytes = kLine; bytes <= kMaxBytes; bytes *= 4) {
    times.push_back({bytes, time_transfer(words, bytes, chain)});
  }
  asm volatile("" : : "r"(chain));  // keeps the compiler from dropping the reads
  return times;
}

TransferFit fit_transfers(std::span<const TransferTime> times) {
  // Weighted by 1 / us^2: a relative error counts alike at every size.
  double weights = 0;
  double x = 0;
  double y = 0;
  double xx = 0;
  double xy = 0;
  for (const TransferTime& time : times) {
    const double weight = 1 / (time.us * time.us);
    const auto bytes = static_cast<double>(time.bytes);
    weights += weight;
    x += weight * bytes;
    y += weight * time.us;
    xx += weight * bytes * bytes;
    xy += weight * bytes * time.us;
  }
  const double slope = (weights * xy - x * y) / (weights * xx - x * x);
  if (times.size() < 2 || !(slope > 0) || !std::isfinite(slope)) {
    fail(ErrorCode::kInvalidArgument, "times of ", times.size(),
         " transfers do not grow with their sizes; a fit needs two sizes or more, and times that grow");
  }
  return {std::max((y - slope * x) / weights, 0.0), 1 / slope};
}

double measure_cache_bandwidth(Workers& workers, const CpuInfo& cpu) {
  constexpr int kPasses = 12;  // the first fills the cache
  // Parts of four L2 caches each cannot come from there; more than 64 MiB together would take long, and may be more
  // than a virtual machine's share of its host's cache.
  const std::int64_t own = 4 * std::max<std::int64_t>(cpu.l2_bytes, std::int64_t{1} << 20) * workers.size();
  const std::int64_t bytes = std::min(std::max(own, std::int64_t{8} << 20), std::int64_t{64} << 20);
  if (cpu.llc_bytes <= cpu.l2_bytes || own > cpu.llc_bytes / 2 || bytes > cpu.llc_bytes / 2) return 0;
  return measure_read_bandwidth(workers, static_cast<std::size_t>(bytes), kPasses);
}

}  // namespace trunkline
