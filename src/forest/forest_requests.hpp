// Fills Forest::requests, the facts of a batch's rows that plans need after the batch is gone.
#pragma once

#include "trunkline/batch.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {

/// Fills forest.requests but for their nodes, forest.query_parents and forest.total_tokens.
/// \param batch has passed check_batch
void fill_requests(const Batch& batch, Forest& forest);

}  // namespace trunkline
