// Measures the bandwidth of a GPU's memory and L2 cache.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/cuda/device.hpp"
#include "machine/cpu_transfer.hpp"

namespace trunkline::cli {

/// Holds 1 GiB of device memory.
class DeviceReads {
 public:
  DeviceReads(ReplayTimer& timer, const Stream& stream, std::int32_t sms);

  /// Slope and intercept of cold streaming reads by all SMs.
  TransferFit stream_rate();
  /// Bytes per microsecond of all SMs re-reading what the L2 cache holds; 0 where it is not known.
  double cache_rate(std::int64_t l2_bytes);
  /// Latency against transfer size (PAT, figure 7a): one CTA on every SM at once, 64 B to 1 MiB.
  std::vector<TransferTime> transfers();

 private:
  double stream_us(std::size_t bytes, int passes, Caches caches);
  double chain_us(std::size_t bytes, int reads);

  ReplayTimer& timer_;
  const Stream& stream_;
  std::int32_t sms_;
  DeviceArray buffer_;
  DeviceArray sink_;
};

}  // namespace trunkline::cli
