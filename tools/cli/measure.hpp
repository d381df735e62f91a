// Timing attention on the CPU.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "synthetic/arena.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/threads.hpp"

namespace trunkline::cli {

struct Timing {
  double us = 0;  ///< median
  double us_p10 = 0;
  double us_p90 = 0;
};

/// Median and percentiles (nearest rank) of samples, in their unit. At least one sample.
Timing summarize(std::vector<double> samples);

/// measure_cpu_profile, several times, each about a quarter of a second: the best bandwidth and FMA rate, for whatever
/// else runs on the machine only slows a measurement down, and a floor that is too high flatters.
MachineProfile measure_machine(Workers& workers, int times = 3);

/// Wall-clock microseconds that `work` takes.
template <class Work>
double time_us(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

/// Makes caches cold: a decode step meets each layer's KV cache after all other layers' have passed through.
class CacheFlusher {
 public:
  /// \param llc_bytes of the last-level cache; 0 where unknown
  CacheFlusher(std::size_t llc_bytes, Workers& workers);
  /// Reads a buffer larger than the caches, each worker its part.
  void flush();
  /// Bytes that a flusher for such a cache holds.
  static std::size_t buffer_bytes(std::size_t llc_bytes);

 private:
  static void read_part(void* context, int worker);

  Workers& workers_;
  std::size_t bytes_;
  Arena buffer_;
};

}  // namespace trunkline::cli
