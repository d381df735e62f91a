// check_batch for callers that check every step.
#pragma once

#include "forest/id_map.hpp"
#include "trunkline/batch.hpp"

namespace trunkline {

/// As check_batch(batch, ids), with the memory for finding duplicate slots lent by the caller.
void check_batch(const Batch& batch, IdCheck ids, IdMap& scratch);

}  // namespace trunkline
