// Profiles, shapes and forests that the plan tests share.
#pragma once

#include <cstdint>
#include <vector>

#include "trunkline/forest.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/types.hpp"

namespace trunkline::testing {

/// One microsecond a token and head for one worker, and nothing else costs anything but a launch of 5 us.
MachineProfile memory_only_profile(std::int32_t workers);
/// A plausible CPU.
MachineProfile cpu_like_profile(std::int32_t workers);

/// A plausible GPU whose 128-row tiles work as two halves.
MachineProfile hopper_like_profile(std::int32_t workers);

/// fp16, d = 128, page size 16.
AttentionShape shape_of(std::int32_t q_heads, std::int32_t kv_heads);

/// A root of `tokens` with one leaf of `leaf_tokens` for each of `leaves` requests.
Forest star_forest(std::int32_t tokens, std::int32_t leaves, std::int32_t leaf_tokens);
/// A chain of `depth` nodes of `tokens` each, with one request ending in every node.
Forest chain_forest(std::int32_t depth, std::int32_t tokens);
/// `requests` that share nothing, of `tokens` each.
Forest unshared_forest(std::int32_t requests, std::int32_t tokens);

}  // namespace trunkline::testing
