// check_batch for callers that check every step.
#pragma once

#include "forest/id_map.hpp"
#include "trunkline/batch.hpp"

namespace trunkline {

/// The part of check_batch that looks neither at slots nor at page ids. Does not allocate.
void check_batch_shape(const Batch& batch);

/// As check_batch(batch, ids), with the memory for finding duplicate slots lent by the caller.
void check_batch(const Batch& batch, IdCheck ids, IdMap& scratch);

}  // namespace trunkline
