// Machine profiles: the measured facts of a device that planning needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trunkline/threads.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// The tile of a kernel: query rows x KV tokens that it holds on chip at a time.
struct TileShape {
  std::int32_t m = 0;  ///< rows; one query has a row for each query head of the KV head's group
  std::int32_t n = 0;  ///< KV tokens
  bool operator==(const TileShape&) const = default;
};

/// The weights of FastTree's costs (equations 7 and 10). The paper gives no values; the defaults are its code's.
struct PaddingCosts {
  double alpha = 0.66;  ///< weight of rows padded to a tile, times tokens
  double beta = 0.33;   ///< weight of tokens padded to a tile, times rows
  double gamma = 0.1;   ///< weight of rows whose partials need a merge
};

/// The measured time of one (item, KV head) on one worker while all workers are busy, by rows and tokens. It is
/// interpolated between the points and grows in proportion beyond them.
struct CostTable {
  std::int32_t head_dim = 0;         ///< the head size of the measurement
  std::vector<std::int32_t> rows;    ///< ascending; empty: not measured
  std::vector<std::int32_t> tokens;  ///< ascending
  std::vector<double> us;            ///< [rows, tokens] microseconds
};

/// The KV tile of items with at least this many tokens.
struct TileStep {
  std::int32_t tokens = 0;  ///< 0 or a power of two
  std::int32_t n = 0;       ///< TileShape::n
  bool operator==(const TileStep&) const = default;
};

/// The limits of a GPU on the tiles of a kernel (PAT, section 5.2); 0 where unknown, as on CPUs.
struct GpuLimits {
  std::int32_t sms = 0;
  std::int64_t shared_bytes_per_sm = 0;
  std::int64_t shared_bytes_per_cta = 0;
  std::int64_t registers_per_sm = 0;
  std::int32_t registers_per_thread = 0;
  std::int32_t threads_per_sm = 0;
  std::int32_t ctas_per_sm = 0;
};

/// Facts of one device. Times are in microseconds, rates are per microsecond, sizes are in bytes.
struct MachineProfile {
  std::string name;
  Device device = Device::kCpu;
  std::int32_t workers = 1;       ///< CPU threads, or CTAs that run at once
  double read_bytes_per_us = 0;   ///< streaming read, all workers together
  double flops_per_us = 0;        ///< fp32 FMA (CPU) or 16-bit matrix rate (GPU), all workers together
  double cache_bytes_per_us = 0;  ///< re-read from the last-level cache, all workers together; 0: as read_bytes_per_us
  double worker_read_bytes_per_us = 0;  ///< maximum of one worker while others are idle; 0: an even share
  double latency_us = 0;          ///< of a small read from memory, which bytes in flight must cover (PAT, figure 7a)
  double launch_us = 0;           ///< fixed cost of one run
  double fill_us = 0;             ///< time until a worker's first tokens arrive, once a run
  double item_us = 0;             ///< fixed cost of one (item, KV head) on its worker
  double cut_us = 0;              ///< extra cost of one (item, KV head) that writes partials, besides their bytes
  double partial_us_per_kib = 0;  ///< time to write, read and merge one KiB of partials, on one worker
  double memory_overlap = 1;      ///< share of the shorter of memory and compute time hidden behind the longer
  double flop_efficiency = 1;     ///< share of flops_per_us that full tiles reach
  std::int32_t narrow_rows = 0;   ///< items of at most this many rows cost by the row; more are padded to row_quantum
  std::int32_t row_quantum = 1;   ///< rows that a kernel computes together
  std::int64_t llc_bytes = 0;     ///< last-level cache
  std::vector<TileShape> tiles;   ///< the tiles that kernels are compiled for, by ascending m
  std::vector<TileStep> tile_steps;  ///< the n of an item, by ascending tokens; empty: the largest that it fills
  std::int32_t half_rows = 0;    ///< tiles of twice this many rows work as two halves, each on its own tokens; 0: none
  double half_change_us = 0.15;  ///< such a tile's turn from one half's tokens to the other half's
  std::int32_t half_chunk_tokens = 128;   ///< such a tile interleaves the tokens of its halves in chunks of this size
  std::int32_t common_chunk_tokens = 64;  ///< tiles interleave shared tokens with their own in chunks of this size
  std::int32_t slice_tokens = 16;         ///< tokens that kernels with such tiles stream at a time
  std::int32_t slice_alignment =
      8;  ///< slices begin at its multiples if pages are multiples of it, not of slice_tokens
  PaddingCosts padding;
  CostTable cost_table;
  GpuLimits gpu;
};

/// Instruction sets of the CPU kernels, from the most portable to the fastest.
enum class CpuIsa { kPortable, kAvx2, kAvx512 };
/// "portable", "avx2" or "avx512".
const char* name_of(CpuIsa isa);

/// Facts of this machine's CPU that need no measurement.
struct CpuInfo {
  std::string model;
  std::int32_t cores = 1;      ///< usable by this process
  std::int64_t l1d_bytes = 0;  ///< 0 where unknown, as for the other caches
  std::int64_t l2_bytes = 0;
  std::int64_t llc_bytes = 0;
  std::int64_t memory_bytes = 0;            ///< installed, or the container's limit where smaller
  std::int64_t memory_available_bytes = 0;  ///< what can be allocated now without swapping
  std::vector<std::string> instruction_sets;
  CpuIsa isa = CpuIsa::kPortable;  ///< the set that the kernels use; the environment's
                                   ///< TRUNKLINE_ISA=portable|avx2|avx512 lowers it
};
CpuInfo cpu_info();

/// A profile with typical figures for a number of threads, which is at least 1. Measures nothing.
MachineProfile generic_cpu_profile(std::int32_t threads);

/// Measures the read bandwidth, in bytes per microsecond, of all workers together that read disjoint parts of a buffer
/// of `bytes` bytes: the best of `repeats` passes.
double measure_read_bandwidth(Workers& workers, std::size_t bytes, int repeats);
/// Measures the fp32 FMA rate of all workers together, in FLOPs per microsecond (one FMA is two), for the instruction
/// set in use.
double measure_fma_rate(Workers& workers, int repeats);
/// generic_cpu_profile with bandwidth and FMA rate measured on this machine, which takes about a quarter of a second.
MachineProfile measure_cpu_profile(Workers& workers);

}  // namespace trunkline
