// Planning a step as an engine would, and the time that it takes.
#pragma once

#include <optional>

#include "trunkline/live.hpp"

namespace trunkline::replay {

/// How the plan of one step came about. Times by the wall clock.
struct StepPlan {
  const Plan* plan = nullptr;
  PlanSource source = PlanSource::kReused;
  double exposed_us = 0;  ///< that the step's thread was busy: submit() and take(), or plan()
  double hidden_us = 0;   ///< that the planner's thread took beside the step before
};

class StepPlanner {
 public:
  /// \param async plans on a thread beside the step before; else between steps. \throws Error as the planners.
  StepPlanner(const MachineProfile& profile, const AttentionShape& shape, const LivePlanOptions& options, bool async);

  /// \param room_us how long the step before takes: a plan that takes longer is late, as in an engine
  StepPlan plan(LiveBatch& batch, double room_us);

 private:
  std::optional<LivePlanner> live_;
  std::optional<AsyncPlanner> async_;
};

}  // namespace trunkline::replay
