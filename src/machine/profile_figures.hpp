// The figures of a machine profile as a table: their names in files and messages, and what is accepted.
#pragma once

#include <cmath>
#include <cstdint>
#include <variant>

#include "trunkline/machine.hpp"

namespace trunkline {

enum class Accepts : std::uint8_t { kPositive, kNotNegative, kShare, kPositiveShare };

inline bool accepts(Accepts what, double value) {
  if (!std::isfinite(value) || value < 0) return false;
  if (what == Accepts::kNotNegative) return true;
  if (what == Accepts::kPositive) return value > 0;
  return value <= 1 && (value > 0 || what == Accepts::kShare);
}

inline const char* meaning_of(Accepts what) {
  switch (what) {
    case Accepts::kPositive: return "it must be > 0";
    case Accepts::kNotNegative: return "it must be >= 0";
    case Accepts::kShare: return "shares are 0 to 1";
    case Accepts::kPositiveShare: break;
  }
  return "this share must be > 0 and at most 1";
}

/// One number of a struct.
template <class Owner>
struct Figure {
  const char* name;
  std::variant<double Owner::*, std::int32_t Owner::*, std::int64_t Owner::*> member;
  Accepts accepted;
  bool optional = false;  ///< a file may lack it; the struct's default holds then
};

inline constexpr Figure<MachineProfile> kProfileFigures[] = {
    {"workers", &MachineProfile::workers, Accepts::kPositive},
    {"read_bytes_per_us", &MachineProfile::read_bytes_per_us, Accepts::kPositive},
    {"flops_per_us", &MachineProfile::flops_per_us, Accepts::kPositive},
    {"cache_bytes_per_us", &MachineProfile::cache_bytes_per_us, Accepts::kNotNegative},
    {"worker_read_bytes_per_us", &MachineProfile::worker_read_bytes_per_us, Accepts::kNotNegative},
    {"latency_us", &MachineProfile::latency_us, Accepts::kNotNegative},
    {"launch_us", &MachineProfile::launch_us, Accepts::kNotNegative},
    {"fill_us", &MachineProfile::fill_us, Accepts::kNotNegative},
    {"item_us", &MachineProfile::item_us, Accepts::kNotNegative},
    {"cut_us", &MachineProfile::cut_us, Accepts::kNotNegative},
    {"partial_us_per_kib", &MachineProfile::partial_us_per_kib, Accepts::kNotNegative},
    {"memory_overlap", &MachineProfile::memory_overlap, Accepts::kShare},
    {"flop_efficiency", &MachineProfile::flop_efficiency, Accepts::kPositiveShare},
    {"narrow_rows", &MachineProfile::narrow_rows, Accepts::kNotNegative},
    {"row_quantum", &MachineProfile::row_quantum, Accepts::kPositive},
    {"half_rows", &MachineProfile::half_rows, Accepts::kNotNegative},
    {.name = "half_change_us",
     .member = &MachineProfile::half_change_us,
     .accepted = Accepts::kNotNegative,
     .optional = true},
    {.name = "half_chunk_tokens",
     .member = &MachineProfile::half_chunk_tokens,
     .accepted = Accepts::kPositive,
     .optional = true},
    {.name = "common_chunk_tokens",
     .member = &MachineProfile::common_chunk_tokens,
     .accepted = Accepts::kPositive,
     .optional = true},
    {.name = "slice_tokens", .member = &MachineProfile::slice_tokens, .accepted = Accepts::kPositive, .optional = true},
    {.name = "slice_alignment",
     .member = &MachineProfile::slice_alignment,
     .accepted = Accepts::kPositive,
     .optional = true},
    {"llc_bytes", &MachineProfile::llc_bytes, Accepts::kNotNegative},
};

/// In files under "padding".
inline constexpr Figure<PaddingCosts> kPaddingFigures[] = {
    {"alpha", &PaddingCosts::alpha, Accepts::kNotNegative},
    {"beta", &PaddingCosts::beta, Accepts::kNotNegative},
    {"gamma", &PaddingCosts::gamma, Accepts::kNotNegative},
};

/// In files under "gpu"; zero where unknown.
inline constexpr Figure<GpuLimits> kGpuFigures[] = {
    {"sms", &GpuLimits::sms, Accepts::kNotNegative},
    {"shared_bytes_per_sm", &GpuLimits::shared_bytes_per_sm, Accepts::kNotNegative},
    {"shared_bytes_per_cta", &GpuLimits::shared_bytes_per_cta, Accepts::kNotNegative},
    {"registers_per_sm", &GpuLimits::registers_per_sm, Accepts::kNotNegative},
    {"registers_per_thread", &GpuLimits::registers_per_thread, Accepts::kNotNegative},
    {"threads_per_sm", &GpuLimits::threads_per_sm, Accepts::kNotNegative},
    {"ctas_per_sm", &GpuLimits::ctas_per_sm, Accepts::kNotNegative},
};

/// Calls visit(name, value) for each number of `owner`.
template <class Owner, std::size_t count, class Visit>
void for_each_figure(const Figure<Owner> (&figures)[count], const Owner& owner, Visit visit) {
  for (const Figure<Owner>& figure : figures) {
    std::visit([&](auto member) { visit(figure, owner.*member); }, figure.member);
  }
}

}  // namespace trunkline
