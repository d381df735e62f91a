#include <utility>

#include "base/check.hpp"
#include "live/plan_editor.hpp"
#include "live/plan_worker.hpp"
#include "plan/plan_checks.hpp"
#include "plan/policies/policy_table.hpp"
#include "trunkline/live.hpp"

namespace trunkline {
namespace {

/// Options of a plan that is made while a step waits: `flat` is made fastest. A batch-invariant policy stays, as `flat`
/// would give other bits.
PlanOptions late_options(const PlanOptions& options) {
  if (is_batch_invariant(options.policy)) return options;
  PlanOptions flat;
  flat.policy = Policy::kFlat;
  flat.capacity = options.capacity;
  flat.policies = options.policies;
  flat.tile = options.tile;
  return flat;
}

}  // namespace

struct AsyncPlanner::State {
  State(MachineProfile profile, const AttentionShape& given, const LivePlanOptions& chosen)
      : shape(given),
        options(chosen),
        late_planner(profile),
        worker(std::move(profile), given, chosen.plan),
        editor(late_planner.profile(), options.plan),
        current(std::make_unique<MadePlan>(late_planner.profile())),
        edited(std::make_unique<MadePlan>(late_planner.profile())) {}

  bool is_current_valid(const LiveBatchState& batch) {
    return has_plan && is_valid(batch, current->plan, current->origin) && cuts_hold(batch, current->plan);
  }
  void need_thread() const;
  PlanSource judge(const LiveBatchState& batch);
  void accept_newest(const LiveBatchState& batch, PlanSource& source);
  bool edit(const LiveBatchState& batch);
  PlanSource make_late(LiveBatch& batch);

  AttentionShape shape;
  LivePlanOptions options;
  Planner late_planner;
  PlanWorker worker;
  PlanEditor editor;
  std::unique_ptr<MadePlan> current;
  std::unique_ptr<MadePlan> edited;  // the next edited plan
  bool has_plan = false;             // current is one
  bool provisional = false;          // current was edited, or is flat for want of another
  std::uint64_t asked_sharing = 0;   // of the last job
  std::uint64_t taken = 0;           // the last job whose plan was taken
  PlanSource source = PlanSource::kReused;
  PlanCounts counts;
};

void AsyncPlanner::State::need_thread() const {
  if (worker.is_here()) return;
  fail(
      ErrorCode::kUnsupported,
      "the planner was made before this process was forked, and its thread is in the parent; supported: one made here");
}

/// Whether the present plan will do for the next step, or why not.
PlanSource AsyncPlanner::State::judge(const LiveBatchState& batch) {
  if (!has_plan || provisional || current->origin.sharing != batch.sharing) return PlanSource::kMembership;
  if (!is_valid(batch, current->plan, current->origin)) return PlanSource::kTruncated;
  if (!cuts_hold(batch, current->plan)) return PlanSource::kGrowth;
  return current->balance.outgrown(batch.lengths, options.growth_limit) ? PlanSource::kGrowth : PlanSource::kReused;
}

/// Takes the newest plan, where it is valid, or where the present one is not either: then it is the better one to edit.
void AsyncPlanner::State::accept_newest(const LiveBatchState& batch, PlanSource& from) {
  std::unique_ptr<MadePlan>* const newest = worker.take();
  if (newest == nullptr) return;
  MadePlan& made = **newest;
  taken = made.number;
  if (made.error) {
    if (made.origin.sharing == batch.sharing) throw Error(*made.error);
    return;
  }
  const bool valid = is_valid(batch, made.plan, made.origin) && cuts_hold(batch, made.plan);
  if (!valid && is_current_valid(batch)) return;
  std::swap(current, *newest);
  has_plan = true;
  provisional = !valid;
  if (valid) from = current->reason;
}

bool AsyncPlanner::State::edit(const LiveBatchState& batch) {
  if (!has_plan || !editor.edit(current->plan, current->origin, batch, edited->plan)) return false;
  edited->origin = origin_of(batch);
  std::swap(current, edited);
  provisional = true;
  return true;
}

PlanSource AsyncPlanner::State::make_late(LiveBatch& batch) {
  has_plan = false;
  current->plan = late_planner.plan(batch.forest(), shape, late_options(options.plan));
  current->origin = origin_of(state_of(batch));
  has_plan = true;
  provisional = true;  // of `invariant`, too: how evenly a late plan loads workers is not known
  return is_batch_invariant(options.plan.policy) ? PlanSource::kMembership : PlanSource::kFlat;
}

AsyncPlanner::AsyncPlanner(MachineProfile profile, const AttentionShape& shape, const LivePlanOptions& options) {
  check_shape(shape);
  check_options(options.plan);
  check_live_options(options);
  state_ = std::make_unique<State>(std::move(profile), shape, options);
}

// A forked child gives up the memory: it has no thread to join, which may have been changing any of it.
AsyncPlanner::~AsyncPlanner() {
  if (!state_->worker.is_here()) static_cast<void>(state_.release());
}

bool AsyncPlanner::submit(LiveBatch& batch) {
  State& state = *state_;
  state.need_thread();
  const LiveBatchState& live = state_of(batch);
  check_page_size(live, state.shape);
  const PlanSource reason = state.judge(live);
  if (reason == PlanSource::kReused) return false;
  const bool underway = state.taken < state.worker.submitted();
  if (underway && state.asked_sharing == live.sharing) return false;
  PlanJob& job = state.worker.draft();
  job.reason = reason;
  job.origin = origin_of(live);
  job.forest = batch.forest();
  job.lengths = live.lengths;
  state.asked_sharing = live.sharing;
  state.worker.submit();
  return true;
}

bool AsyncPlanner::poll() const {
  state_->need_thread();
  return state_->worker.idle();
}

const Plan& AsyncPlanner::take(LiveBatch& batch) {
  State& state = *state_;
  state.need_thread();
  const LiveBatchState& live = state_of(batch);
  check_page_size(live, state.shape);
  PlanSource source = PlanSource::kReused;
  state.accept_newest(live, source);
  if (!state.is_current_valid(live)) {
    source = PlanSource::kEdited;
    if (!state.edit(live)) source = state.make_late(batch);
  }
  state.source = source;
  count(source, state.counts);
  return state.current->plan;
}

PlanSource AsyncPlanner::source() const {
  return state_->source;
}

const PlanCounts& AsyncPlanner::counts() const {
  return state_->counts;
}

}  // namespace trunkline
