// The parts of the plan validator. It shares no code with what makes plans. Each part returns the first violation it
// finds, and may rely on what the parts before it have shown.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

using Violation = std::optional<std::string>;

/// Batch row of each slot of a forest.
using RowOfSlot = std::unordered_map<std::int32_t, std::int32_t>;

/// 1. Items and what they list lie in range and within limits; slots, generations, flags and masks are right.
Violation find_item_violation(const Plan& plan, const Forest& forest, const RowOfSlot& row_of_slot);

/// 2. Outputs: queries of one item are direct; each partial slot is written once, and merged once, for its query.
Violation find_output_violation(const Plan& plan);

/// 3. Spans are read only by requests that share them, and every query attends to each token that it must exactly
/// once, now and at all lengths that can grow from the present ones.
Violation find_coverage_violation(const Plan& plan, const Forest& forest, const RowOfSlot& row_of_slot);

}  // namespace trunkline
