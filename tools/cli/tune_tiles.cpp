#include "cli/tune_tiles.hpp"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/text.hpp"
#include "trunkline/tiles.hpp"

namespace trunkline::cli {
namespace {

/// A set of tiles that PAT gives for one GPU, to compare with; nothing is derived from it.
struct KnownSet {
  const char* name;
  std::int32_t min_n_of_64;
  bool contains(TileShape tile) const {
    if (tile.n > 128 || tile.m > 64) return false;
    return tile.m < 64 || tile.n >= min_n_of_64;
  }
};
// Released: {16, 32} x {16, 32, 64, 128} and 64 x {32, 64, 128}. Section 5.2 drops (64, 32) and (64, 64) on the H100.
constexpr KnownSet kA100Set = {"PAT A100", 32};
constexpr KnownSet kH100Set = {"PAT H100", 128};
constexpr std::int64_t kA100SharedBytes = 164 << 10;

std::string tile_name(TileShape tile) {
  return concat(tile.m, "x", tile.n);
}

const char* constraint_name(TileConstraint constraint) {
  switch (constraint) {
    case TileConstraint::kNone: return "feasible";
    case TileConstraint::kPowerOfTwo: return "no: (3) form";
    case TileConstraint::kSharedMemory: return "no: (1) shared memory";
    case TileConstraint::kRegistersPerThread: return "no: (1) registers a thread";
    case TileConstraint::kRegistersPerSm: return "no: (1) registers an SM";
    case TileConstraint::kBytesInFlight: break;
  }
  return "no: (2) bytes in flight";
}

std::string kib(std::int64_t bytes) {
  return fixed(static_cast<double>(bytes) / 1024, 0);
}

void print_table(std::ostream& out, const std::vector<TileFit>& fits) {
  Table table({"tile", "derived", kA100Set.name, kH100Set.name, "shared KiB", "registers", "CTAs/SM", "limited by",
               "in flight KiB"},
              2);
  for (const TileFit& fit : fits) {
    const bool fits_sm = fit.ctas_per_sm > 0;
    table.add({tile_name(fit.tile), constraint_name(fit.violated), kA100Set.contains(fit.tile) ? "yes" : "-",
               kH100Set.contains(fit.tile) ? "yes" : "-", kib(fit.shared_bytes),
               concat(fit.registers_per_thread, fit.compiled ? "" : " est."),
               fits_sm ? std::to_string(fit.ctas_per_sm) : "-", fits_sm ? fit.limited_by : "-",
               fits_sm ? kib(fit.bytes_in_flight) : "-"});
  }
  table.print(out);
}

/// How many registers a thread would leave so few CTAs on an SM that the tile breaks constraint (2).
std::string registers_that_exclude(const TileFit& fit, const GpuLimits& gpu) {
  const std::int64_t each = fit.bytes_in_flight / fit.ctas_per_sm;
  const std::int64_t too_few = (fit.bytes_needed - 1) / each;
  if (too_few == 0) return "one CTA alone on an SM would keep enough in flight";
  const std::int64_t registers = gpu.registers_per_sm / (fit.threads * (too_few + 1)) + 1;
  if (registers > gpu.registers_per_thread) {
    return "no number of registers that (1) allows leaves so few CTAs that (2) is broken";
  }
  return concat("so would ", registers, " registers a thread, which leave ", too_few, " CTAs on an SM");
}

/// Why a feasible tile could be missing from a set whose authors measured other figures than ours.
std::string what_would_exclude(const TileFit& fit, const MachineProfile& profile) {
  if (fit.tile.m > 64) {
    return fit.reason +
           "; PAT builds no m above 64. A 128-row tile halves the re-reads of a prefix that more than 64 "
           "rows share";
  }
  const double latency = static_cast<double>(fit.bytes_in_flight) / profile.read_bytes_per_us;
  return fit.reason + "; (2) would exclude it from a latency of " + fixed(latency, 2) + " us on (here " +
         fixed(profile.latency_us, 2) + "); " + registers_that_exclude(fit, profile.gpu);
}

void explain(std::ostream& out, const KnownSet& set, const std::vector<TileFit>& fits, const MachineProfile& profile) {
  std::vector<std::string> lines;
  for (const TileFit& fit : fits) {
    if (fit.feasible() == set.contains(fit.tile)) continue;
    lines.push_back("  " + tile_name(fit.tile) + (fit.feasible() ? ", only derived: " : ", only in the set: ") +
                    (fit.feasible() ? what_would_exclude(fit, profile) : fit.reason) + '.');
  }
  out << (lines.empty() ? "No difference from " : "Differences from ") << set.name << (lines.empty() ? ".\n" : ":\n");
  for (const std::string& line : lines) out << line << '\n';
}

}  // namespace

void print_tiles(std::ostream& out, const MachineProfile& profile) {
  const TileKernel kernel;
  const std::vector<TileFit> fits = solve_tiles(profile, kernel);
  constexpr std::size_t kTitleWidth = 80;
  out << printable(profile.name, kTitleWidth) << ": tiles of rows x KV tokens, head size " << kernel.head_dim
      << ", 16-bit elements, a warp for every " << kernel.rows_per_warp << " rows\n"
      << "L = " << fixed(profile.latency_us, 3) << " us, B = " << fixed(profile.read_bytes_per_us / 1e6, 2)
      << " TB/s: " << kib(fits.front().bytes_needed) << " KiB must be in flight on " << profile.gpu.sms << " SMs, "
      << fixed(static_cast<double>(fits.front().bytes_needed) / profile.gpu.sms / 1024, 1) << " KiB on each\n\n";
  print_table(out, fits);
  out << '\n';
  explain(out, kA100Set, fits, profile);
  // The paper's own change of the set for a GPU with more shared memory than an A100.
  if (profile.gpu.shared_bytes_per_sm > kA100SharedBytes) explain(out, kH100Set, fits, profile);
}

}  // namespace trunkline::cli
