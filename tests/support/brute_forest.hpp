// The prefix forest straight from its definition, to compare the fast one with.
#pragma once

#include <string>

#include "trunkline/batch.hpp"
#include "trunkline/forest.hpp"

namespace trunkline::testing {

/// Asks for every token of every row which rows share it; the time is B^2 x tokens.
Forest brute_forest(const Batch& batch);

/// A forest as lines of text, one a node and one a request: two forests are equal when their texts are.
std::string to_text(const Forest& forest);

}  // namespace trunkline::testing
