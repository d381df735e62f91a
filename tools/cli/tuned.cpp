#include "cli/tuned.hpp"

#include <ostream>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "cli/text.hpp"

namespace trunkline::cli {
namespace {

struct FigureLine {
  const char* name;
  std::string value;
  const char* meaning;
};

std::vector<FigureLine> figure_lines(const MachineProfile& profile) {
  const bool on_cuda = profile.device == Device::kCuda;
  const auto rate = [](double bytes_per_us) { return fixed(bytes_per_us / 1e3, 1) + " GB/s"; };
  std::vector<FigureLine> lines = {
      {"read bandwidth", rate(profile.read_bytes_per_us), "streaming, all workers"},
      {"cache bandwidth", profile.cache_bytes_per_us > 0 ? rate(profile.cache_bytes_per_us) : "-",
       "re-reads from the last-level cache, all workers"},
      {"latency", fixed(profile.latency_us * 1e3, 0) + " ns", "of a small read from memory"},
      {"to keep in flight", human_bytes(profile.latency_us * profile.read_bytes_per_us), "latency x bandwidth"},
      {on_cuda ? "matrix rate" : "fp32 FMA rate", fixed(profile.flops_per_us / 1e3, 1) + " GFLOP/s",
       on_cuda ? "16-bit, of the known profile: not measured" : "all workers"},
      {"of that in kernels", fixed(profile.flop_efficiency, 2), "fitted"},
      {"memory overlap", fixed(profile.memory_overlap, 2), "of the shorter of memory and compute time; fitted"},
      {"launch", human_time(profile.launch_us), "once a run"},
      {"item", human_time(profile.item_us), "each (item, KV head)"},
      {"partials", human_time(profile.partial_us_per_kib), "each KiB, written, read and merged"}};
  if (!on_cuda) return lines;
  lines.push_back({"fill", human_time(profile.fill_us), "once a run, until the first tokens arrive"});
  lines.push_back({"cut", human_time(profile.cut_us), "each (item, KV head) with partials, besides their bytes"});
  lines.push_back({"one worker alone", rate(profile.worker_read_bytes_per_us), "while others leave it room"});
  return lines;
}

void print_figures(std::ostream& out, const MachineProfile& profile) {
  constexpr std::size_t kNameWidth = 100;
  constexpr std::size_t kNames = 20;
  constexpr std::size_t kValues = 14;
  out << printable(profile.name, kNameWidth) << ", " << profile.workers << " workers\n\n";
  for (const FigureLine& line : figure_lines(profile)) {
    const std::string name = line.name;
    out << name << std::string(kNames - name.size(), ' ') << line.value
        << std::string(line.value.size() < kValues ? kValues - line.value.size() : 1, ' ') << line.meaning << '\n';
  }
}

void print_cost_table(std::ostream& out, const CostTable& table) {
  out << "\nC(rows, tokens): microseconds of one (item, KV head) on one worker, all workers busy, caches cold\n";
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
  printed.print(out);
}

void print_transfers(std::ostream& out, const std::vector<TransferTime>& transfers, bool on_cuda) {
  out << "\nTransfers from cold memory by " << (on_cuda ? "one CTA on every SM at once" : "one thread")
      << ", each after the one before\n";
  Table printed({"bytes", "time"});
  for (const TransferTime& time : transfers) {
    printed.add({human_bytes(static_cast<double>(time.bytes)), human_time(time.us)});
  }
  printed.print(out);
}

}  // namespace

void name_padding_sources(FigureSources& sources) {
  for (const char* weight : {"padding.alpha", "padding.beta", "padding.gamma"}) {
    sources[weight] = "FastTree's released code; the paper gives no values";
  }
}

void print_tuned(std::ostream& out, const Tuned& tuned) {
  const bool on_cuda = tuned.profile.device == Device::kCuda;
  print_figures(out, tuned.profile);
  print_cost_table(out, tuned.profile.cost_table);
  print_transfers(out, tuned.transfers, on_cuda);
  if (tuned.tile_times) print_tile_times(out, *tuned.tile_times);
}

}  // namespace trunkline::cli
