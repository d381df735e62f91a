// Plans made as on a device, by threads of the host, and those of the host's planner in the same form.
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

/// As write_upload (exec/cuda/step/upload.hpp) writes a plan of these requests, whose slots are not repeated.
UploadedPlan uploaded(const Plan& plan, const Forest& forest);

/// The plan of a forest that a device makes. \param[out] summary not null \param invariant_chunk 0: policy `trunk`
UploadedPlan device_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                         const PlanCapacity& capacity, const HostThreads& threads, PlanSummary* summary,
                         std::int32_t invariant_chunk = 0);

/// The same of a batch, whose forest is found first.
UploadedPlan device_plan(const trunkline::DeviceBatch& batch, const AttentionShape& shape,
                         const MachineProfile& profile, const PlanCapacity& capacity, const HostThreads& threads,
                         PlanSummary* summary);

/// Names the first list that differs, and where; nothing where all are equal.
std::optional<std::string> find_difference(const UploadedPlan& expected, const UploadedPlan& actual);

}  // namespace trunkline::testing
