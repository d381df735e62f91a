// check_batch for callers that check every step.
#pragma once

#include <cstdint>
#include <vector>

#include "forest/id_map.hpp"
#include "trunkline/batch.hpp"

namespace trunkline {

/// The part of check_batch that reads neither slots nor page ids. Does not allocate.
void check_batch_shape(const Batch& batch);

/// `name` is null_page's in messages; num_pages 0: the pool's size is not known.
/// \throws Error(kOutOfRange) where null_page is no page of the pool.
void check_null_page(const char* name, std::int64_t null_page, std::int64_t num_pages);

/// Memory for finding duplicate slots.
struct SlotScratch {
  std::vector<std::uint8_t> seen;  // by slot, where slots are small
  IdMap rows;                      // by slot
};

/// As check_batch(batch, ids), with memory lent by the caller.
void check_batch(const Batch& batch, IdCheck ids, SlotScratch& scratch);

}  // namespace trunkline
