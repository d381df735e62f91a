#include "machine/profile_check.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.hpp"
#include "machine/profile_figures.hpp"

namespace trunkline {
namespace {

using Fault = std::optional<std::string>;

template <class Owner, std::size_t count>
Fault numbers_fault(const Figure<Owner> (&figures)[count], const Owner& owner, const char* group) {
  Fault fault;
  for_each_figure(figures, owner, [&](const Figure<Owner>& figure, auto value) {
    if (fault || accepts(figure.accepted, static_cast<double>(value))) return;
    fault = concat(group, figure.name, " is ", value, "; ", meaning_of(figure.accepted));
  });
  return fault;
}

// Far above any kernel's and machine's; they keep products of costs in 64 bits.
constexpr std::int32_t kMaxRows = 4096;
constexpr std::int32_t kMaxWorkers = 1 << 20;
constexpr double kMaxHalfChangeUs = 16;

Fault limits_fault(const MachineProfile& profile) {
  struct Limit {
    const char* name;
    std::int32_t value;
    std::int32_t max;
  };
  for (const Limit& limit :
       {Limit{"workers", profile.workers, kMaxWorkers}, Limit{"narrow_rows", profile.narrow_rows, kMaxRows},
        Limit{"row_quantum", profile.row_quantum, kMaxRows}, Limit{"half_rows", profile.half_rows, kMaxRows}}) {
    if (limit.value > limit.max) return concat(limit.name, " is ", limit.value, "; supported are up to ", limit.max);
  }
  return std::nullopt;
}

/// Chunks are counted in slices and cut by shifts, so both are powers of two.
Fault chunks_fault(const MachineProfile& profile) {
  struct Count {
    const char* name;
    std::int32_t value;
    std::int32_t min;
    std::int32_t max;
  };
  for (const Count& count :
       {Count{"slice_tokens", profile.slice_tokens, 1, kMaxSliceTokens},
        Count{"slice_alignment", profile.slice_alignment, 1, profile.slice_tokens},
        Count{"half_chunk_tokens", profile.half_chunk_tokens, profile.slice_tokens, kMaxRows},
        Count{"common_chunk_tokens", profile.common_chunk_tokens, profile.slice_tokens, kMaxRows}}) {
    const bool in_range = count.value >= count.min && count.value <= count.max;
    if (in_range && std::has_single_bit(static_cast<std::uint32_t>(count.value))) continue;
    return concat(count.name, " is ", count.value, "; supported are powers of two from ", count.min, " to ", count.max);
  }
  if (profile.half_change_us > kMaxHalfChangeUs) {
    return concat("half_change_us is ", profile.half_change_us, "; supported are up to ", kMaxHalfChangeUs);
  }
  return std::nullopt;
}

Fault tiles_fault(const MachineProfile& profile) {
  if (profile.tiles.empty()) return "tiles is empty; planning needs at least one tile";
  for (std::size_t i = 0; i < profile.tiles.size(); ++i) {
    const TileShape tile = profile.tiles[i];
    if (tile.m < 1 || tile.n < 1 || tile.m > kMaxRows || tile.n > kMaxRows) {
      return concat("tiles[", i, "] is ", tile.m, " x ", tile.n, "; both must be from 1 to ", kMaxRows);
    }
  }
  return std::nullopt;
}

// The selector looks lengths up by their octave, so other thresholds would be rounded without a word.
Fault steps_fault(const std::vector<TileStep>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const TileStep step = steps[i];
    const auto named = [&] { return concat("tile_steps[", i, "] is from ", step.tokens, " tokens on n = ", step.n); };
    if (step.n < 1) return named() + "; n must be >= 1";
    if (i == 0 && step.tokens != 0) return named() + "; the first step must be from 0 tokens on";
    if (i > 0 &&
        (step.tokens <= steps[i - 1].tokens || !std::has_single_bit(static_cast<std::uint32_t>(step.tokens)))) {
      return named() + "; steps must rise, and be from powers of two on";
    }
  }
  return std::nullopt;
}

Fault axis_fault(const char* name, const std::vector<std::int32_t>& axis) {
  for (std::size_t i = 0; i < axis.size(); ++i) {
    if (axis[i] > (i == 0 ? 0 : axis[i - 1])) continue;
    return concat("cost_table.", name, "[", i, "] is ", axis[i], "; they must be >= 1 and rise");
  }
  return std::nullopt;
}

Fault table_fault(const CostTable& table) {
  if (table.rows.empty() && table.tokens.empty() && table.us.empty()) return std::nullopt;
  if (table.head_dim < 1) return concat("cost_table.head_dim is ", table.head_dim, "; it must be > 0");
  if (Fault fault = axis_fault("rows", table.rows)) return fault;
  if (Fault fault = axis_fault("tokens", table.tokens)) return fault;
  if (table.us.empty() || table.us.size() != table.rows.size() * table.tokens.size()) {
    return concat("cost_table.us has ", table.us.size(), " times for ", table.rows.size(), " rows and ",
                  table.tokens.size(), " tokens; one for each pair is needed");
  }
  for (std::size_t i = 0; i < table.us.size(); ++i) {
    if (table.us[i] > 0 && std::isfinite(table.us[i])) continue;
    return concat("cost_table.us[", i / table.tokens.size(), "][", i % table.tokens.size(), "] is ", table.us[i],
                  "; times must be > 0");
  }
  return std::nullopt;
}

}  // namespace

Fault profile_fault(const MachineProfile& profile) {
  if (Fault fault = numbers_fault(kProfileFigures, profile, "")) return fault;
  if (Fault fault = numbers_fault(kPaddingFigures, profile.padding, "padding.")) return fault;
  if (Fault fault = numbers_fault(kGpuFigures, profile.gpu, "gpu.")) return fault;
  if (Fault fault = limits_fault(profile)) return fault;
  if (Fault fault = chunks_fault(profile)) return fault;
  if (Fault fault = tiles_fault(profile)) return fault;
  if (Fault fault = steps_fault(profile.tile_steps)) return fault;
  return table_fault(profile.cost_table);
}

void check_profile(const MachineProfile& profile) {
  if (const Fault fault = profile_fault(profile)) fail(ErrorCode::kInvalidArgument, "profile.", *fault);
}

}  // namespace trunkline
