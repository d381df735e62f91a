#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "machine/fma_rate.hpp"
#include "machine/huge_buffer.hpp"
#include "trunkline/machine.hpp"

namespace trunkline {
namespace {

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
