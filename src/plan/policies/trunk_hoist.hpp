// Prefixes that `trunk` moves into packs of their own, where streaming them in every tile would cost more than
// partials. That lost in every measurement on an H200; it pays where tiles are narrow or masked rows cost as much as
// others, as on CPUs.
#pragma once

#include "plan/policies/policy_input.hpp"

namespace trunkline {

/// Fills scratch.hoisted.
void choose_hoisted(const PolicyInput& input, TrunkScratch& scratch);

/// A pack for each hoisted node.
void pack_hoisted(const PolicyInput& input, Packs& packs);

}  // namespace trunkline
