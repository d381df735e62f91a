// Random batches of every kind that a planner must get right.
#pragma once

#include <cstdint>

#include "support/random_batch.hpp"

namespace trunkline::testing {

/// Unshared rows, one prefix, prompts of prompts, chains that go on from each other, copies and rows made from earlier
/// ones as make_random_batch() does; then null pages, padded rows, another order of rows, any form of table.
/// \param max_rows at least 2
RandomBatch make_planner_batch(std::uint64_t seed, std::int32_t max_rows);

}  // namespace trunkline::testing
