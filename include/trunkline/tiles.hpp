// Which tiles a GPU can run well, derived from its limits, and which KV tile suits which length (PAT, section 5.2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trunkline/machine.hpp"

namespace trunkline {

/// The compiler's report on the kernel of one tile.
struct CompiledTile {
  TileShape tile;
  std::int32_t registers_per_thread = 0;
  std::int64_t shared_bytes = 0;  ///< per CTA; 0: the estimate
};

/// A family of kernels, one for each tile. The defaults are PAT's: each warp holds 16 rows, one tile of K or V is in
/// flight, and Q, the K or V tile and fp32 intermediate results are in shared memory.
struct TileKernel {
  std::int32_t head_dim = 128;         ///< h
  std::int32_t element_bytes = 2;      ///< b, bytes of an element of Q, K and V
  std::int32_t accumulator_bytes = 4;  ///< b', bytes of an element of intermediate results
  std::int32_t rows_per_warp = 16;
  /// Registers that a thread needs besides fragments of Q, S, P and O: addresses, the softmax state, K and V fragments.
  std::int32_t other_registers = 40;
  std::vector<CompiledTile> compiled;  ///< reports that replace the estimates
};

/// The first constraint that a tile violates; numbers in brackets are those of PAT, section 5.2.
enum class TileConstraint : std::uint8_t {
  kNone,
  kPowerOfTwo,          ///< (3) m and n are powers of two, and at least 16
  kSharedMemory,        ///< (1) m h b + n h b + m h b' <= shared memory of a CTA
  kRegistersPerThread,  ///< (1) registers of a thread exceed the limit
  kRegistersPerSm,      ///< (1) one CTA's registers or threads exceed the SM's
  kBytesInFlight,       ///< (2) S C n h b >= L B
};

/// The resources that a tile takes on a machine.
struct TileFit {
  TileShape tile;
  TileConstraint violated = TileConstraint::kNone;
  std::int64_t shared_bytes = 0;          ///< per CTA
  std::int32_t threads = 0;               ///< per CTA
  std::int32_t registers_per_thread = 0;  ///< estimated or compiled
  bool compiled = false;                  ///< whether registers_per_thread is the compiler's
  std::int32_t ctas_per_sm = 0;           ///< C, resident at once; 0 where one does not fit
  const char* limited_by = "";            ///< the resource that keeps C from being larger
  std::int64_t bytes_in_flight = 0;       ///< S C n h b
  std::int64_t bytes_needed = 0;          ///< L B
  std::string reason;                     ///< the numbers of the violated constraint, or of the resource that limits C

  bool feasible() const { return violated == TileConstraint::kNone; }
};

/// Whether and how a tile fits a machine. \throws Error(kInvalidArgument) when the profile has no GPU limits or no
/// latency, naming the figure.
TileFit fit_tile(const MachineProfile& profile, const TileKernel& kernel, TileShape tile);

/// The fit of every m and n of 16, 32, 64, 128 and 256, by ascending m, then n. \throws Error as fit_tile.
std::vector<TileFit> solve_tiles(const MachineProfile& profile, const TileKernel& kernel = {});

/// Measured times of the same work with KV tiles of different n, by length.
struct TileSweep {
  std::vector<std::int32_t> n;       ///< ascending
  std::vector<std::int32_t> tokens;  ///< ascending; several in each octave show half-filled last tiles
  std::vector<double> us;            ///< [n, tokens] microseconds
};

/// PAT's selector of n as thresholds for MachineProfile::tile_steps: in each octave of lengths, [2^k, 2^(k + 1)), the
/// largest n that is within `tolerance` of the fastest at every length measured there, or else the one with the least
/// time over them. The last choice stands for all greater lengths, the first for all smaller ones.
/// \throws Error(kInvalidArgument) on an empty or unordered sweep, or a time that is not > 0.
std::vector<TileStep> derive_tile_steps(const TileSweep& sweep, double tolerance = 0.02);

}  // namespace trunkline
