// More load of the same kind: copies of a trace on top of each other.
#pragma once

#include <cstdint>

#include "replay/arrivals.hpp"
#include "replay/trace.hpp"

namespace trunkline::replay {

struct SuperpositionOptions {
  std::int32_t copies = 1;    ///< 1 to 10,000
  std::int32_t samples = 1;   ///< of each request, that come together: 1 to 1,024
  double common_share = 0.1;  ///< above 0, at most 1: blocks that so large a share of the sessions has are everyone's
};

/// Copies of the trace, one after another in a cycle of the trace's length. Each but the first begins late by a share
/// of that length that is drawn at random, from its number alone; sessions that would begin after the end begin at the
/// start instead. Without recorded times, each copy begins with another session. Blocks of at least two sessions and of
/// `common_share` of all, such as those of a system prompt, are the same in all copies; the others are a user's, and
/// each copy has its own. With samples, each request is followed by others of its session with the same prompt, which
/// arrive with it; turns follow on the first. Their whole prompt is the same, also where the trace names no blocks.
/// \throws Error(kInvalidArgument) naming the option; kUnsupported for samples of a trace of searches.
Trace superpose(const Trace& trace, const SuperpositionOptions& options);

/// Arrivals of so many copies: rates and sessions that are live at once grow with them.
ArrivalOptions superpose(ArrivalOptions arrivals, std::int32_t copies);

}  // namespace trunkline::replay
