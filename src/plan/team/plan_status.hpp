// What is known of a plan once its lists are laid out.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/plan_growth.hpp"
#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"

namespace trunkline {

/// How long lists are. By one thread. \param planned it has items; else the lists are empty \param cut some items are
/// \param alone it is `flat`, for want of room
TRUNKLINE_HOST_DEVICE inline TeamPlanStatus write_counts(const PlanTask& task, const PlanLists& lists, bool planned,
                                                         bool cut, bool alone) {
  const PlanMemory& memory = task.memory;
  const std::int32_t* const shape = memory.shape;
  TeamPlanStatus status = *memory.status;
  const CutShape cuts = cut ? *memory.cuts : CutShape{};
  ListCounts counts{};
  if (planned) {
    counts = {shape[PlanMemory::kItems], shape[PlanMemory::kEntries], shape[PlanMemory::kFragments] + cuts.splits,
              cuts.merges};
  }
  status.items = counts.items;
  status.spans = counts.spans;
  status.partials = cut ? shape[PlanMemory::kPartials] : 0;
  status.masks = planned ? shape[PlanMemory::kMasks] + cuts.masked_splits : 0;
  status.fallbacks = alone ? 1 : 0;
  status.unplanned = planned ? 0 : 1;
  status.growth = planned ? PlanGrowth::limit(shape[PlanMemory::kOpenEnds], task.block.state->full,
                                              shape[PlanMemory::kItems], *memory.costs)
                          : PlanGrowth::kUnlimited;
  if (!planned) status.total_tokens = status.distinct_tokens = status.read_tokens = 0;
  *lists.counts = counts;
  *task.all.status = status;
  lists.merge_begin[counts.merges] = status.partials;
  return status;
}

}  // namespace trunkline
