#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "machine/fma_rate.hpp"
#include "trunkline/machine.hpp"

namespace trunkline {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Anonymous memory, in huge pages where the system gives them, as serving engines and our caches have it: with 4 KB
// pages the reading is limited by address translation, not by memory.
class HugeBuffer {
 public:
  explicit HugeBuffer(std::size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) fail(ErrorCode::kWorkspace, "cannot allocate ", bytes, " bytes to measure read bandwidth");
#if defined(MADV_HUGEPAGE)
    madvise(data_, bytes, MADV_HUGEPAGE);
#endif
  }
  ~HugeBuffer() {
    munmap(data_, bytes_);
  }
  HugeBuffer(const HugeBuffer&) = delete;
  HugeBuffer& operator=(const HugeBuffer&) = delete;
  std::span<std::uint64_t> words() const {
    return {static_cast<std::uint64_t*>(data_), bytes_ / sizeof(std::uint64_t)};
  }

 private:
  void* data_;
  std::size_t bytes_;
};

struct ReadPass {
  std::span<std::uint64_t> words;
  int workers;
  std::vector<std::uint64_t> sums;

  std::span<std::uint64_t> part(int worker) const {
    const std::size_t share = words.size() / static_cast<std::size_t>(workers);
    return words.subspan(static_cast<std::size_t>(worker) * share, share);
  }
};

struct FmaPass {
  FmaLoop loop;
  std::int64_t rounds;
  std::vector<double> flops;
};

FmaLoop fma_loop(CpuIsa isa) {
#if defined(__x86_64__)
  if (isa == CpuIsa::kAvx512) return fma_loop_avx512;
  if (isa == CpuIsa::kAvx2) return fma_loop_avx2;
#endif
  static_cast<void>(isa);
  return fma_loop_portable;
}

}  // namespace

double measure_read_bandwidth(Workers& workers, std::size_t bytes, int repeats) {
  const HugeBuffer buffer(bytes);
  ReadPass pass{buffer.words(), workers.size(), std::vector<std::uint64_t>(static_cast<std::size_t>(workers.size()))};
  workers.run(
      [](void* context, int worker) {
        const auto part = static_cast<ReadPass*>(context)->part(worker);
        std::memset(part.data(), 1, part.size_bytes());
      },
      &pass);
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = Clock::now();
    workers.run(
        [](void* context, int worker) {
          auto& shared = *static_cast<ReadPass*>(context);
          std::uint64_t sums[8] = {};
          const auto part = shared.part(worker);
          for (std::size_t i = 0; i + 8 <= part.size(); i += 8) {
            for (std::size_t j = 0; j < 8; ++j) sums[j] += part[i + j];
          }
          std::uint64_t total = 0;
          for (const std::uint64_t sum : sums) total += sum;
          shared.sums[static_cast<std::size_t>(worker)] = total;
        },
        &pass);
    best = std::max(best, static_cast<double>(bytes) / microseconds_since(start));
  }
  return best;
}

double measure_fma_rate(Workers& workers, int repeats) {
  FmaPass pass{fma_loop(cpu_info().isa), 200'000, std::vector<double>(static_cast<std::size_t>(workers.size()))};
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = Clock::now();
    workers.run(
        [](void* context, int worker) {
          auto& shared = *static_cast<FmaPass*>(context);
          shared.flops[static_cast<std::size_t>(worker)] = shared.loop(shared.rounds);
        },
        &pass);
    const double time = microseconds_since(start);
    double flops = 0;
    for (const double part : pass.flops) flops += part;
    best = std::max(best, flops / time);
  }
  return best;
}

MachineProfile measure_cpu_profile(Workers& workers) {
  MachineProfile profile = generic_cpu_profile(workers.size());
  // Larger than the caches that two cores of today can call their own, small enough for a laptop. A shared last-level
  // cache of hundreds of MB may still serve a part of it, which makes the floor lower and our ratios to it larger.
  const std::size_t bytes = std::size_t{256} << 20;
  profile.name = cpu_info().model;
  profile.read_bytes_per_us = measure_read_bandwidth(workers, bytes, 4);
  profile.flops_per_us = measure_fma_rate(workers, 10);
  return profile;
}

}  // namespace trunkline
