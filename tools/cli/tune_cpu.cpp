// `trunkline tune` on the CPU.
#include <algorithm>
#include <iostream>
#include <string>

#include "base/check.hpp"
#include "cli/measure.hpp"
#include "cli/text.hpp"
#include "cli/tune_fit.hpp"
#include "cli/tune_probe.hpp"
#include "cli/tuned.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

// Larger than the last-level cache. A small virtual machine reports the host's whole cache, which is out of proportion.
std::size_t cold_buffer_bytes(const CpuInfo& cpu) {
  return std::clamp(static_cast<std::size_t>(std::max<std::int64_t>(2 * cpu.llc_bytes, 0)), std::size_t{256} << 20,
                    std::size_t{1} << 30);
}

void measure_memory(const CpuInfo& cpu, Workers& workers, Progress& progress, Tuned& tuned) {
  MachineProfile& profile = tuned.profile;
  FigureSources& sources = tuned.sources;
  progress.step("timing transfers of all sizes");
  tuned.transfers = measure_transfers(cold_buffer_bytes(cpu));
  const TransferFit fit = fit_transfers(tuned.transfers);
  profile.latency_us = fit.latency_us;
  sources["latency_us"] = concat(
      "measured: dependent reads of 64 B to 1 MiB from cold memory by one thread, median of "
      "each size; fitted latency and ",
      fixed(fit.bytes_per_us / 1e3, 1), " GB/s for one thread");
  progress.step("timing the last-level cache");
  const double cache = measure_cache_bandwidth(workers, cpu);
  // A cache that is no faster than memory is not worth planning for.
  profile.cache_bytes_per_us = cache > profile.read_bytes_per_us ? cache : 0;
  sources["cache_bytes_per_us"] =
      cache > profile.read_bytes_per_us
          ? "measured: re-reads of a buffer larger than the cores' own caches, best of 12 passes"
          : "measured: re-reads from the last-level cache are no faster than memory, or it has no known size";
}

/// \param misfit of the cost model against the cost table, as a factor
void name_other_sources(const CpuInfo& cpu, double misfit, Tuned& tuned) {
  FigureSources& sources = tuned.sources;
  const std::string kernels = concat("as compiled: the kernels for ", name_of(cpu.isa));
  sources["workers"] = "measured with so many threads";
  sources["read_bytes_per_us"] = "measured: streaming read of 256 MiB by all threads, best of 12 passes";
  sources["flops_per_us"] = "measured: fp32 FMA loop on all threads, best of 30";
  sources["launch_us"] = "measured: a batch of one token, lowest decile of 101, less item_us";
  sources["item_us"] = "measured: 512 or more items of one token, lowest decile of 101";
  sources["partial_us_per_kib"] =
      "measured: items of 512 tokens and 128 rows, whole and in chunks of 64, lowest decile of 20";
  sources["memory_overlap"] = sources["flop_efficiency"] =
      concat("fitted to cost_table; a factor ", fixed(misfit, 2), " off in the mean");
  sources["cost_table"] =
      concat("measured: items of equal size on all threads, caches cold, least of ", kCostTableRounds, " rounds");
  sources["fill_us"] = sources["cut_us"] = "not seen on CPUs";
  sources["worker_read_bytes_per_us"] = "not measured: an even share of read_bytes_per_us";
  sources["narrow_rows"] = sources["row_quantum"] = sources["half_rows"] = sources["tiles"] = kernels;
  sources["llc_bytes"] = "reported by the system";
  name_padding_sources(sources);
}

}  // namespace

Tuned tune_cpu(Workers& workers) {
  constexpr std::size_t kOtherSteps = 4;
  const CpuInfo cpu = cpu_info();
  Progress progress(kOtherSteps + kCostTableRounds, std::cerr, stderr_is_terminal());
  Tuned tuned;
  progress.step("timing reads and FMAs");
  tuned.profile = measure_machine(workers);
  tuned.profile.name = concat(cpu.model, ", ", workers.size(), " threads, ", name_of(cpu.isa));
  measure_memory(cpu, workers, progress, tuned);
  const FixedCosts fixed_costs = measure_fixed_costs(tuned.profile, workers, progress);
  tuned.profile.launch_us = fixed_costs.launch_us;
  tuned.profile.item_us = fixed_costs.item_us;
  tuned.profile.partial_us_per_kib = fixed_costs.partial_us_per_kib;
  tuned.profile.cost_table = measure_cost_table(tuned.profile, workers, progress);
  const double misfit = fit_overlap(tuned.profile);
  name_other_sources(cpu, misfit, tuned);
  return tuned;
}

}  // namespace trunkline::cli
