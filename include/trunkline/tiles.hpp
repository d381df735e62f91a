// Which tiles a GPU can run well, derived from its limits, and which KV tile suits which length (PAT, section 5.2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trunkline/machine.hpp"

namespace trunkline {

/// What the compiler reports of one tile's kernel.
struct CompiledTile {
  TileShape tile;
  std::int32_t registers_per_thread = 0;
  std::int64_t shared_bytes = 0;  ///< of one CTA; 0: as estimated
};

/// A family of kernels, one for each tile. The defaults are PAT's: each warp holds 16 rows, one tile of K or V is in
/// flight, Q, the K or V tile and fp32 intermediate results are in shared memory.
struct TileKernel {
  std::int32_t head_dim = 128;         ///< h
  std::int32_t element_bytes = 2;      ///< b, of Q, K and V
  std::int32_t accumulator_bytes = 4;  ///< b', of intermediate results
  std::int32_t rows_per_warp = 16;
  /// Registers that a thread needs besides fragments of Q, S, P and O: addresses, the softmax state, K and V fragments.
  std::int32_t other_registers = 40;
  std::vector<CompiledTile> compiled;  ///< takes the place of the estimates
};

/// The first of the constraints that a tile breaks; numbers in brackets are the paper's.
enum class TileConstraint : std::uint8_t {
  kNone,
  kPowerOfTwo,          ///< (3) m and n are powers of two, and at least 16
  kSharedMemory,        ///< (1) m h b + n h b + m h b' <= shared memory of a CTA
  kRegistersPerThread,  ///< (1) of the limit per thread
  kRegistersPerSm,      ///< (1) one CTA's registers or threads exceed the SM's
  kBytesInFlight,       ///< (2) S C n h b >= L B
};

/// What a tile takes of a machine.
struct TileFit {
  TileShape tile;
  TileConstraint violated = TileConstraint::kNone;
  std::int64_t shared_bytes = 0;          ///< of one CTA
  std::int32_t threads = 0;               ///< of one CTA
  std::int32_t registers_per_thread = 0;  ///< estimated or compiled
  bool compiled = false;                  ///< registers_per_thread is the compiler's
  std::int32_t ctas_per_sm = 0;           ///< C, resident at once; 0 where one does not fit
  const char* limited_by = "";            ///< what keeps C from being larger
  std::int64_t bytes_in_flight = 0;       ///< S C n h b
  std::int64_t bytes_needed = 0;          ///< L B
  std::string reason;                     ///< the numbers of the violated constraint, or of what C is limited by

  bool feasible() const { return violated == TileConstraint::kNone; }
};

/// \throws Error(kInvalidArgument) when the profile has no GPU limits or no latency, naming the figure.
TileFit fit_tile(const MachineProfile& profile, const TileKernel& kernel, TileShape tile);

/// Every m and n of 16, 32, 64, 128 and 256, by rising m, then n.
std::vector<TileFit> solve_tiles(const MachineProfile& profile, const TileKernel& kernel = {});

/// Time of the same work with KV tiles of different n, by length.
struct TileSweep {
  std::vector<std::int32_t> n;       ///< rising
  std::vector<std::int32_t> tokens;  ///< rising; best several in each octave, so that half-filled last tiles show
  std::vector<double> us;            ///< [n, tokens]
};

/// PAT's selector of n as thresholds for MachineProfile::tile_steps: in each octave of lengths, [2^k, 2^(k + 1)), the
/// largest n that is within `tolerance` of the fastest at every length measured there, or else the one with the least
/// time over them. The last choice stands for all greater lengths, the first for all smaller ones.
/// \throws Error(kInvalidArgument) on an empty or unordered sweep, or a time that is not > 0.
std::vector<TileStep> derive_tile_steps(const TileSweep& sweep, double tolerance = 0.02);

}  // namespace trunkline
