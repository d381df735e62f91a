// `trunkline tune`: measures this machine and writes its profile, or derives the tiles of a GPU's.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/measure.hpp"
#include "cli/program.hpp"
#include "cli/text.hpp"
#include "cli/tune_fit.hpp"
#include "cli/tune_probe.hpp"
#include "cli/tune_tiles.hpp"
#include "machine/cpu_transfer.hpp"
#include "trunkline/trunkline.hpp"

namespace trunkline::cli {
namespace {

struct Tuned {
  MachineProfile profile;
  FigureSources sources;
  std::vector<TransferTime> transfers;
  double misfit = 1;  // of the cost model against the cost table, as a factor
};

// Larger than the last-level cache, but a host's whole cache, seen from a small virtual machine, is out of proportion.
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
  // What is no faster than memory is not worth planning for.
  profile.cache_bytes_per_us = cache > profile.read_bytes_per_us ? cache : 0;
  sources["cache_bytes_per_us"] =
      cache > profile.read_bytes_per_us
          ? "measured: re-reads of a buffer larger than the cores' own caches, best of 12 passes"
          : "measured: re-reads from the last-level cache are no faster than memory, or it has no known size";
}

void name_other_sources(const CpuInfo& cpu, Tuned& tuned) {
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
      concat("fitted to cost_table; a factor ", fixed(tuned.misfit, 2), " off in the mean");
  sources["cost_table"] =
      concat("measured: items of equal size on all threads, caches cold, least of ", kCostTableRounds, " rounds");
  sources["fill_us"] = sources["cut_us"] = "not seen on CPUs";
  sources["worker_read_bytes_per_us"] = "not measured: an even share of read_bytes_per_us";
  sources["narrow_rows"] = sources["row_quantum"] = sources["half_rows"] = sources["tiles"] = kernels;
  sources["llc_bytes"] = "reported by the system";
  for (const char* weight : {"padding.alpha", "padding.beta", "padding.gamma"}) {
    sources[weight] = "FastTree's released code; the paper gives no values";
  }
}

Tuned measure(Workers& workers) {
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
  tuned.misfit = fit_overlap(tuned.profile);
  name_other_sources(cpu, tuned);
  return tuned;
}

void print_figures(const MachineProfile& profile) {
  const auto line = [](const char* name, const std::string& value, const char* meaning) {
    std::cout << name << std::string(20 - std::string(name).size(), ' ') << value
              << std::string(value.size() < 14 ? 14 - value.size() : 1, ' ') << meaning << '\n';
  };
  constexpr std::size_t kNameWidth = 100;
  std::cout << printable(profile.name, kNameWidth) << "\n\n";
  line("read bandwidth", fixed(profile.read_bytes_per_us / 1e3, 1) + " GB/s", "streaming, all threads");
  line("cache bandwidth", profile.cache_bytes_per_us > 0 ? fixed(profile.cache_bytes_per_us / 1e3, 1) + " GB/s" : "-",
       "re-reads from the last-level cache, all threads");
  line("latency", fixed(profile.latency_us * 1e3, 0) + " ns", "of a small read from memory");
  line("to keep in flight", human_bytes(profile.latency_us * profile.read_bytes_per_us), "latency x bandwidth");
  line("fp32 FMA rate", fixed(profile.flops_per_us / 1e3, 1) + " GFLOP/s", "all threads");
  line("of that in kernels", fixed(profile.flop_efficiency, 2), "fitted");
  line("memory overlap", fixed(profile.memory_overlap, 2), "of the shorter of memory and compute time; fitted");
  line("launch", human_time(profile.launch_us), "once a run");
  line("item", human_time(profile.item_us), "each (item, KV head)");
  line("partials", human_time(profile.partial_us_per_kib), "each KiB, written, read and merged");
}

void print_cost_table(const CostTable& table) {
  std::cout << "\nC(rows, tokens): microseconds of one (item, KV head) on one thread, all threads busy, caches cold\n";
  std::vector<std::string> header = {"rows"};
  for (const std::int32_t tokens : table.tokens) header.push_back(concat(tokens, " tokens"));
  Table printed(header);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    std::vector<std::string> cells = {std::to_string(table.rows[row])};
    for (std::size_t i = 0; i < table.tokens.size(); ++i) {
      cells.push_back(fixed(table.us[row * table.tokens.size() + i], 1));
    }
    printed.add(std::move(cells));
  }
  printed.print(std::cout);
}

void print_transfers(const std::vector<TransferTime>& transfers) {
  std::cout << "\nTransfers from cold memory by one thread, each after the one before\n";
  Table printed({"bytes", "time"});
  for (const TransferTime& time : transfers) {
    printed.add({human_bytes(static_cast<double>(time.bytes)), human_time(time.us)});
  }
  printed.print(std::cout);
}

// Before half a minute is spent on measuring.
void check_writable(const std::string& path) {
  if (!std::ofstream(path, std::ios::app)) fail(ErrorCode::kIo, "--out ", path, ": cannot be opened for writing");
}

void write_profile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) fail(ErrorCode::kIo, "--out ", path, ": writing failed");
}

}  // namespace

int tune_command(const Options& options) {
  if (!options.tiles.empty()) {
    std::ostringstream text;  // so that nothing is printed when a later file is at fault
    for (const std::string& path : options.tiles) {
      if (&path != &options.tiles.front()) text << '\n';
      print_tiles(text, load_profile(path));
    }
    std::cout << text.str();
    return kExitOk;
  }

  if (!options.out.empty()) check_writable(options.out);
  ThreadPool workers(options.threads);
  const Tuned tuned = measure(workers);
  const std::string text = profile_to_json(tuned.profile, tuned.sources);
  if (!options.out.empty()) write_profile(options.out, text);
  if (options.json) {
    std::cout << text;
    return kExitOk;
  }
  print_figures(tuned.profile);
  print_cost_table(tuned.profile.cost_table);
  print_transfers(tuned.transfers);
  if (!options.out.empty())
    std::cout << "\nWritten to " << options.out << "; use it with --machine " << options.out << '\n';
  return kExitOk;
}

}  // namespace trunkline::cli
