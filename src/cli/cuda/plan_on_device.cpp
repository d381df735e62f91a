#include "cli/cuda/plan_on_device.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace trunkline::cli {
namespace {

CudaPlannerOptions options_for(const Plan& plan, const HostBatch& host, std::int32_t device) {
  const auto size = [](const auto& list) { return std::max<std::int32_t>(1, static_cast<std::int32_t>(list.size())); };
  CudaPlannerOptions options;
  options.device = device;
  options.rows = std::max(1, host.batch.rows());
  options.capacity = {.queries = size(plan.queries),
                      .items = size(plan.items),
                      .spans = size(plan.spans),
                      .partials = std::max(1, plan.partials)};
  options.null_page = host.batch.null_page;
  if (plan.policy == Policy::kInvariant) {
    options.policy = plan.policy;
    options.invariant_chunk = plan.invariant_chunk;
  }
  return options;
}

}  // namespace

PlanOnDevice::PlanOnDevice(const Plan& plan, const MachineProfile& profile, const HostBatch& host, std::int32_t device,
                           cudaStream_t stream)
    : planner_(profile, plan.shape, options_for(plan, host, device)), memory_(planner_.memory_bytes()) {
  planner_.bind(memory_.data(), planner_.memory_bytes(), stream);
}

void PlanOnDevice::check(const Plan& plan) const {
  const CudaPlanReport report = planner_.report();
  if (report.items == static_cast<std::int32_t>(plan.items.size()) && report.partials == plan.partials) return;
  fail(ErrorCode::kInternal, "the device's plan has ", report.items, " items and ", report.partials,
       " partials; the host's has ", plan.items.size(), " and ", plan.partials);
}

}  // namespace trunkline::cli
