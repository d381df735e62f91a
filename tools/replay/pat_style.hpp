// A trace as PAT's released serving driver would send it, to be set beside the trace as it is.
#pragma once

#include <cstdint>

#include "replay/trace.hpp"

namespace trunkline::replay {

/// The driver's defaults: drop requests whose first block has id 0, keep those of at most so many tokens with what they
/// are asked for, forget the block that a prompt ends in, and ask for 256 tokens of each. It draws Poisson arrivals
/// instead of the recorded ones, at 4 to 11 requests a second.
struct PatStyle {
  bool drop_root_zero = true;
  std::int32_t max_tokens = 7800;  ///< of prompt and output
  std::int32_t output_tokens = 256;
};

/// \throws Error(kInvalidArgument) when the trace has no ids of blocks, is one of sessions of several requests, or
/// nothing is left of it.
void apply_pat_style(Trace& trace, const PatStyle& style);

}  // namespace trunkline::replay
