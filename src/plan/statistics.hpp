// Traffic and arithmetic of a plan.
#pragma once

#include "plan/cost_model.hpp"
#include "plan/packs.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// \param predicted by the splitter that made the plan.
/// \throws Error(kUnsupported) when the bytes that the plan reads do not fit 64 bits.
PlanStatistics make_statistics(const Forest& forest, const Plan& plan, const Packs& packs, const CostModel& costs,
                               const MachineProfile& profile, Nanoseconds predicted);

}  // namespace trunkline
