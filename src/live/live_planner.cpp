#include <utility>

#include "live/kept_plan.hpp"
#include "live/plan_balance.hpp"
#include "plan/plan_checks.hpp"
#include "trunkline/live.hpp"

namespace trunkline {

struct LivePlanner::State {
  State(MachineProfile profile, const AttentionShape& given, const LivePlanOptions& chosen)
      : planner(std::move(profile)), shape(given), options(chosen), balance(planner.profile()) {}

  PlanSource judge(const LiveBatchState& batch);
  void make(LiveBatch& batch);

  Planner planner;
  AttentionShape shape;
  LivePlanOptions options;
  PlanBalance balance;
  const Plan* plan = nullptr;  // the planner's
  PlanOrigin origin;
  PlanSource source = PlanSource::kKept;
  PlanCounts counts;
};

/// Whether the plan may be kept, or why not.
PlanSource LivePlanner::State::judge(const LiveBatchState& batch) {
  if (plan == nullptr || origin.sharing != batch.sharing) return PlanSource::kMembership;
  if (!is_valid(batch, *plan, origin)) return PlanSource::kTruncated;
  return balance.outgrown(batch.lengths, options.growth_limit) ? PlanSource::kGrowth : PlanSource::kKept;
}

void LivePlanner::State::make(LiveBatch& batch) {
  const Forest& forest = batch.forest();
  plan = nullptr;  // planning overwrites it, also where it fails
  plan = &planner.plan(forest, shape, options.plan);
  origin = origin_of(state_of(batch));
  balance.reset(*plan, forest);
}

LivePlanner::LivePlanner(MachineProfile profile, const AttentionShape& shape, const LivePlanOptions& options) {
  check_shape(shape);
  check_options(options.plan);
  check_live_options(options);
  state_ = std::make_unique<State>(std::move(profile), shape, options);
}

LivePlanner::~LivePlanner() = default;
LivePlanner::LivePlanner(LivePlanner&&) noexcept = default;
LivePlanner& LivePlanner::operator=(LivePlanner&&) noexcept = default;

const Plan& LivePlanner::plan(LiveBatch& batch) {
  State& state = *state_;
  check_page_size(state_of(batch), state.shape);
  const PlanSource source = state.judge(state_of(batch));
  if (source != PlanSource::kKept) state.make(batch);
  state.source = source;
  count(source, state.counts);
  return *state.plan;
}

PlanSource LivePlanner::source() const {
  return state_->source;
}

const PlanCounts& LivePlanner::counts() const {
  return state_->counts;
}

}  // namespace trunkline
