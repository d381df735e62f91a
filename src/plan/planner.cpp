#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "plan/candidates.hpp"
#include "plan/emit.hpp"
#include "plan/plan_checks.hpp"
#include "plan/schedule.hpp"
#include "plan/statistics.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

struct Planner::State {
  MachineProfile profile;
  Candidates candidates;
  PlanEmitter emitter;
  Scheduler scheduler;
  std::vector<Nanoseconds> item_costs;
  Plan plan;

  void lay_out(const Forest& forest, Policy policy);
};

void Planner::State::lay_out(const Forest& forest, Policy policy) {
  const Candidate& candidate = candidates.of(policy);
  plan.policy = policy;
  emitter.emit(forest, candidate.packs, candidate.division, candidates.tiles(), plan);
  candidate.division.item_costs(candidate.packs, candidate.costs, item_costs);
  scheduler.schedule(item_costs, plan.schedule);
  plan.statistics =
      make_statistics(forest, plan, candidate.packs, candidate.costs, profile, candidate.division.predicted());
}

Planner::Planner(MachineProfile profile) : state_(std::make_unique<State>()) {
  check_profile(profile);
  state_->profile = std::move(profile);
}

Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

const MachineProfile& Planner::profile() const {
  return state_->profile;
}

const Plan& Planner::plan(const Forest& forest, const AttentionShape& shape, const PlanOptions& options) {
  check_shape(shape);
  check_options(options);
  State& state = *state_;
  state.candidates.reset(forest, shape, state.profile, options);
  Plan& plan = state.plan;
  plan.shape = shape;
  plan.capacity = options.capacity;
  ++plan.epoch;

  Policy policy = options.policy;
  if (policy == Policy::kAuto) {
    policy = choose_policy(state.candidates, options.split);
  } else {
    state.candidates.propose(policy, options.split);
  }
  state.lay_out(forest, policy);

  // What `flat` needs without cuts is known from the requests alone, so capacities can be made for it.
  if (exceeded_capacity(plan)) {
    state.candidates.propose(Policy::kFlat, KvSplit::kNone);
    state.lay_out(forest, Policy::kFlat);
    plan.statistics.fallbacks = 1;
    if (const std::optional<std::string> excess = exceeded_capacity(plan)) {
      fail(ErrorCode::kWorkspace, "the batch needs ", *excess, ", even with policy flat and no KV cuts");
    }
  }
#ifdef TRUNKLINE_VALIDATE_PLANS
  validate_plan(plan, forest);
#endif
  return plan;
}

std::vector<PolicyEstimate> Planner::estimate(const Forest& forest, const AttentionShape& shape) {
  check_shape(shape);
  const PlanOptions options;
  state_->candidates.reset(forest, shape, state_->profile, options);
  return estimate_policies(state_->candidates, options.split);
}

Plan make_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
               const PlanOptions& options) {
  return Planner(profile).plan(forest, shape, options);
}

}  // namespace trunkline
