// PAT's offline configuration solver (section 5.2): constraints (1) to (3) for each tile, from a machine's limits.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.hpp"
#include "trunkline/tiles.hpp"

namespace trunkline {
namespace {

constexpr std::int32_t kWarpThreads = 32;
constexpr std::int32_t kMinTile = 16;
// A CTA takes so much shared memory for the system besides its own (CUDA's programming guide, compute capability 8 and
// 9), and registers are given to warps in blocks.
constexpr std::int64_t kReservedSharedBytes = 1024;
constexpr std::int64_t kRegisterBlock = 256;

void check_known(const char* name, double value) {
  if (value > 0) return;
  fail(ErrorCode::kInvalidArgument, "profile.", name, " is ", value, "; deriving tiles needs it, and it must be > 0");
}

void check_limits(const MachineProfile& profile) {
  const GpuLimits& gpu = profile.gpu;
  check_known("gpu.sms", gpu.sms);
  check_known("gpu.shared_bytes_per_sm", static_cast<double>(gpu.shared_bytes_per_sm));
  check_known("gpu.shared_bytes_per_cta", static_cast<double>(gpu.shared_bytes_per_cta));
  check_known("gpu.registers_per_sm", static_cast<double>(gpu.registers_per_sm));
  check_known("gpu.registers_per_thread", gpu.registers_per_thread);
  check_known("gpu.threads_per_sm", gpu.threads_per_sm);
  check_known("gpu.ctas_per_sm", gpu.ctas_per_sm);
  check_known("latency_us", profile.latency_us);
  check_known("read_bytes_per_us", profile.read_bytes_per_us);
}

bool is_power(std::int32_t value) {
  return value >= kMinTile && std::has_single_bit(static_cast<std::uint32_t>(value));
}

const CompiledTile* find_compiled(const TileKernel& kernel, TileShape tile) {
  for (const CompiledTile& compiled : kernel.compiled) {
    if (compiled.tile == tile) return &compiled;
  }
  return nullptr;
}

// Fragments that a warp's threads share out between them: the accumulators of O and S, P and Q in the element type.
std::int32_t estimated_registers(const TileKernel& kernel, std::int32_t n) {
  const std::int32_t accumulators = (kernel.head_dim + n) * kernel.accumulator_bytes;
  const std::int32_t operands = (kernel.head_dim + n) * kernel.element_bytes;
  constexpr std::int32_t kRegisterBytes = 4;
  return kernel.rows_per_warp * (accumulators + operands) / (kWarpThreads * kRegisterBytes) + kernel.other_registers;
}

std::string kib(std::int64_t bytes) {
  return concat(bytes / 1024, " KiB");
}

/// CTAs that fit an SM at once, and the resource that runs out first.
struct Residency {
  std::int64_t ctas;
  const char* limited_by;
};

Residency resident_ctas(const GpuLimits& gpu, const TileFit& fit) {
  const std::int64_t warps = fit.threads / kWarpThreads;
  const std::int64_t warp_registers =
      (std::int64_t{fit.registers_per_thread} * kWarpThreads + kRegisterBlock - 1) / kRegisterBlock * kRegisterBlock;
  const Residency limits[] = {{gpu.shared_bytes_per_sm / (fit.shared_bytes + kReservedSharedBytes), "shared memory"},
                              {gpu.registers_per_sm / (warps * warp_registers), "registers"},
                              {gpu.threads_per_sm / fit.threads, "threads"},
                              {gpu.ctas_per_sm, "CTAs an SM holds"}};
  return *std::min_element(std::begin(limits), std::end(limits),
                           [](const Residency& a, const Residency& b) { return a.ctas < b.ctas; });
}

TileFit broken(TileFit fit, TileConstraint constraint, std::string reason) {
  fit.violated = constraint;
  fit.reason = std::move(reason);
  return fit;
}

}  // namespace

TileFit fit_tile(const MachineProfile& profile, const TileKernel& kernel, TileShape tile) {
  check_limits(profile);
  const GpuLimits& gpu = profile.gpu;
  TileFit fit;
  fit.tile = tile;
  if (!is_power(tile.m) || !is_power(tile.n)) {
    return broken(fit, TileConstraint::kPowerOfTwo, "m and n must be powers of two, at least 16");
  }
  const CompiledTile* compiled = find_compiled(kernel, tile);
  const std::int64_t token_bytes = std::int64_t{kernel.head_dim} * kernel.element_bytes;
  fit.shared_bytes =
      compiled != nullptr && compiled->shared_bytes > 0
          ? compiled->shared_bytes
          : (tile.m + tile.n) * token_bytes + std::int64_t{tile.m} * kernel.head_dim * kernel.accumulator_bytes;
  fit.threads = (tile.m + kernel.rows_per_warp - 1) / kernel.rows_per_warp * kWarpThreads;
  fit.compiled = compiled != nullptr && compiled->registers_per_thread > 0;
  fit.registers_per_thread = fit.compiled ? compiled->registers_per_thread : estimated_registers(kernel, tile.n);
  fit.bytes_needed = static_cast<std::int64_t>(profile.latency_us * profile.read_bytes_per_us);

  if (fit.shared_bytes > gpu.shared_bytes_per_cta) {
    return broken(fit, TileConstraint::kSharedMemory,
                  concat("needs ", kib(fit.shared_bytes), " of shared memory; a CTA has at most ",
                         kib(gpu.shared_bytes_per_cta)));
  }
  if (fit.registers_per_thread > gpu.registers_per_thread) {
    return broken(fit, TileConstraint::kRegistersPerThread,
                  concat("needs ", fit.registers_per_thread, " registers a thread; at most ", gpu.registers_per_thread,
                         " exist"));
  }
  const Residency residency = resident_ctas(gpu, fit);
  fit.ctas_per_sm = static_cast<std::int32_t>(residency.ctas);
  fit.limited_by = residency.limited_by;
  if (residency.ctas == 0) {
    return broken(fit, TileConstraint::kRegistersPerSm,
                  concat(fit.threads, " threads of ", fit.registers_per_thread, " registers exceed an SM's ",
                         residency.limited_by));
  }
  fit.bytes_in_flight = std::int64_t{gpu.sms} * fit.ctas_per_sm * tile.n * token_bytes;
  const std::string flight = concat(gpu.sms, " SMs x ", fit.ctas_per_sm, " CTAs (by ", fit.limited_by, ") keep ",
                                    kib(fit.bytes_in_flight), " in flight");
  if (fit.bytes_in_flight < fit.bytes_needed) {
    return broken(fit, TileConstraint::kBytesInFlight, concat(flight, "; L x B is ", kib(fit.bytes_needed)));
  }
  fit.reason = concat(flight, ", of ", kib(fit.bytes_needed), " needed");
  return fit;
}

std::vector<TileFit> solve_tiles(const MachineProfile& profile, const TileKernel& kernel) {
  constexpr std::int32_t kMaxTile = 256;
  std::vector<TileFit> fits;
  for (std::int32_t m = kMinTile; m <= kMaxTile; m *= 2) {
    for (std::int32_t n = kMinTile; n <= kMaxTile; n *= 2) fits.push_back(fit_tile(profile, kernel, {m, n}));
  }
  return fits;
}

}  // namespace trunkline
