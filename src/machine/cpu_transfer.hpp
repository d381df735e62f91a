// Latency of memory against the size of a transfer (PAT, figure 7a), and re-reads from the last-level cache.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trunkline/machine.hpp"
#include "trunkline/threads.hpp"

namespace trunkline {

struct TransferTime {
  std::size_t bytes = 0;
  double us = 0;  ///< median
};

/// One worker reads runs of growing size, 64 bytes to 1 MiB, at places of a buffer of `buffer_bytes` bytes that are
/// cold in its caches; where a run lies depends on what the one before held, so transfers do not overlap.
std::vector<TransferTime> measure_transfers(std::size_t buffer_bytes);

/// us = latency_us + bytes / bytes_per_us: flat, then linear.
struct TransferFit {
  double latency_us = 0;
  double bytes_per_us = 0;
};
/// Least squares of the relative error, so that small transfers count as much as large ones.
/// \throws Error(kInvalidArgument) on fewer than two sizes, or times that do not grow with them.
TransferFit fit_transfers(std::span<const TransferTime> times);

/// Bytes per microsecond of all workers together, each re-reading a part of its own of a buffer that is larger than
/// the cores' own caches and at most half the last-level one; 0 where there is no room between these, or their sizes
/// are unknown.
double measure_cache_bandwidth(Workers& workers, const CpuInfo& cpu);

}  // namespace trunkline
