// Plans checked token by token, against what a plan is for rather than by its rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::testing {

/// Plays a plan at lengths grown by `growth[row]` tokens. Every token of every request has an identity, which two
/// requests share exactly where the forest says so; new tokens are their request's own. An empty request stays empty,
/// or grows by no less than its query tokens. \return how a query meets a wrong token, misses one that it must see,
/// meets a draft that is no ancestor, meets any twice, or has no mask for one; nothing when none does.
std::optional<std::string> play_plan(const Plan& plan, const Forest& forest, const std::vector<std::int32_t>& growth);

}  // namespace trunkline::testing
