#include <utility>

#include "live/kept_plan.hpp"
#include "live/plan_balance.hpp"
#include "live/plan_editor.hpp"
#include "plan/plan_checks.hpp"
#include "trunkline/live.hpp"

namespace trunkline {

struct LivePlanner::State {
  State(MachineProfile profile, const AttentionShape& given, const LivePlanOptions& chosen)
      : planner(std::move(profile)),
        shape(given),
        options(chosen),
        balance(planner.profile()),
        editor(planner.profile(), options.plan) {}

  PlanSource judge(const LiveBatchState& batch);
  bool edit(const LiveBatchState& batch);
  void make(LiveBatch& batch);

  Planner planner;
  AttentionShape shape;
  LivePlanOptions options;
  PlanBalance balance;
  // The balance reads a plan at the first step that may keep it: where events come at every step, none does.
  enum class Unread { kNone, kNew, kEdited } unread = Unread::kNone;
  PlanEditor editor;
  Plan edited[2];              // one is edited into the other
  std::int64_t changes = 0;    // requests that edits have taken out or added since the last plan was made
  std::int64_t made_for = 0;   // requests
  const Plan* plan = nullptr;  // the planner's, or an edited one
  PlanOrigin origin;
  PlanSource source = PlanSource::kReused;
  PlanCounts counts;
};

/// Whether the plan may be kept, or why not.
PlanSource LivePlanner::State::judge(const LiveBatchState& batch) {
  if (plan == nullptr) return PlanSource::kMembership;
  if (origin.sharing != batch.sharing) return edit(batch) ? PlanSource::kEdited : PlanSource::kMembership;
  if (!is_valid(batch, *plan, origin)) return PlanSource::kTruncated;
  if (!cuts_hold(batch, *plan)) return PlanSource::kGrowth;
  if (unread == Unread::kEdited) balance.expect_edited(batch.lengths);
  if (unread != Unread::kNone) balance.read(*plan);
  unread = Unread::kNone;
  return balance.outgrown(batch.lengths, options.growth_limit) ? PlanSource::kGrowth : PlanSource::kReused;
}

bool LivePlanner::State::edit(const LiveBatchState& batch) {
  const double limit = options.edit_share * static_cast<double>(made_for);
  if (static_cast<double>(changes) >= limit) return false;
  Plan& result = edited[plan == &edited[0] ? 1 : 0];
  if (!editor.edit(*plan, origin, batch, result)) return false;
  if (static_cast<double>(changes + editor.changes()) > limit) return false;
  changes += editor.changes();
  plan = &result;
  origin = origin_of(batch);
  unread = Unread::kEdited;
  return true;
}

void LivePlanner::State::make(LiveBatch& batch) {
  const Forest& forest = batch.forest();
  plan = nullptr;  // planning overwrites it, also where it fails
  plan = &planner.plan(forest, shape, options.plan);
  origin = origin_of(state_of(batch));
  changes = 0;
  made_for = batch.rows();
  balance.expect(forest, state_of(batch).lengths);
  unread = Unread::kNew;
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
  if (source != PlanSource::kReused && source != PlanSource::kEdited) state.make(batch);
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
