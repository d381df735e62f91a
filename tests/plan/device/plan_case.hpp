// Plans of the device planner, run by threads of the host, and plans of the host's planner in the same form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/device/device_steps.hpp"
#include "plan/device/planner_phases.hpp"
#include "plan/plan_lists.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::testing {

template <class T>
using ListVector = std::vector<T>;
/// The lists that kernels read, at their lengths.
using UploadedPlan = PlanListsOf<ListVector>;

/// Returns the lists that write_upload (exec/cuda/step/upload.hpp) writes of a plan of these requests, with distinct
/// slots.
UploadedPlan uploaded(const Plan& plan, const Forest& forest);

/// Returns the device planner's plan of a forest. \param[out] summary not null \param invariant_chunk 0: policy `trunk`
UploadedPlan device_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                         const PlanCapacity& capacity, const HostThreads& threads, PlanSummary* summary,
                         std::int32_t invariant_chunk = 0);

/// Returns the device planner's plan of a batch, including its forest.
UploadedPlan device_plan(const trunkline::DeviceBatch& batch, const AttentionShape& shape,
                         const MachineProfile& profile, const PlanCapacity& capacity, const HostThreads& threads,
                         PlanSummary* summary);

/// Names the first list that differs, and the position; empty if all are equal.
std::optional<std::string> find_difference(const UploadedPlan& expected, const UploadedPlan& actual);

}  // namespace trunkline::testing
