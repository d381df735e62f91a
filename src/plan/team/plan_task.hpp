// What all steps of planning by a team are given.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_machine.hpp"

namespace trunkline {

struct PlanTask {
  const TeamMachine& machine;
  const TeamForest& forest;
  PlanMemory& memory;  ///< each block's own
  const BlockMemory& block;
};

TRUNKLINE_HOST_DEVICE inline std::int32_t size_of(Range range) {
  return range.end - range.begin;
}

}  // namespace trunkline
