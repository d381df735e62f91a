// Random batches of every kind that a planning team must get right.
#pragma once

#include <cstdint>
#include <string>

#include "plan/team/team_batch.hpp"
#include "support/random_batch.hpp"
#include "trunkline/forest.hpp"

namespace trunkline::testing {

/// Unshared rows, one prefix, prompts of prompts, chains that go on from each other, copies and rows made from earlier
/// ones as make_random_batch() does; then null pages, padded rows, another order of rows, any form of table.
/// \param max_rows at least 2
RandomBatch make_team_batch(std::uint64_t seed, std::int32_t max_rows);

/// The same batch as teams take it.
TeamBatch team_batch_of(const Batch& batch);

/// What a team's forest has of a forest, to be compared as text: all but slots and generations.
std::string team_text(const Forest& forest);

}  // namespace trunkline::testing
