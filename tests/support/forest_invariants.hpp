// Invariants of every forest, whatever it was built from.
#pragma once

#include <optional>
#include <string>

#include "trunkline/forest.hpp"

namespace trunkline::testing {

/// \return the first broken promise of Forest's documentation, or nothing
std::optional<std::string> find_forest_violation(const Forest& forest);

}  // namespace trunkline::testing
