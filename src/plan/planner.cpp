#include <utility>
#include <vector>

#include "base/check.hpp"
#include "machine/profile_check.hpp"
#include "plan/emit.hpp"
#include "plan/plan_checks.hpp"
#include "plan/policy_selector.hpp"
#include "plan/schedule.hpp"
#include "plan/statistics.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

struct Planner::State {
  MachineProfile profile;
  PolicySelector selector;
  PlanOptions fallback;
  PlanEmitter emitter;
  Scheduler scheduler;
  Plan plan;

  void lay_out(const Forest& forest, Policy policy, const PlanOptions& options);
};

void Planner::State::lay_out(const Forest& forest, Policy policy, const PlanOptions& options) {
  const Proposal& proposal = selector.propose(policy, options.split);
  plan.policy = policy;
  plan.invariant_chunk = is_batch_invariant(policy) ? options.policies.invariant_chunk : 0;
  emitter.emit(forest, proposal.packs, proposal.splitter, selector.tiles(), plan);
  scheduler.schedule(proposal.splitter.item_costs(), plan.schedule);
  plan.statistics =
      make_statistics(forest, plan, proposal.packs, proposal.costs, profile, proposal.splitter.predicted());
}

namespace {

/// An item of few queries in a tile that works as two halves is added up in another order than one of many.
void check_uniform(Policy policy, const TileTable& tiles) {
  const std::int32_t rows = tiles.uniform_rows();
  if (tiles.first_half(rows, tiles.max_queries(rows)) > 0) {
    fail(ErrorCode::kUnsupported, "all tiles have ", rows, " rows and work as two halves of ", tiles.half_rows(),
         "; policy ", name_of(policy), " needs one that works as one");
  }
}

}  // namespace

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
  state.selector.reset(forest, shape, state.profile, options);
  Plan& plan = state.plan;
  plan.shape = shape;
  plan.capacity = options.capacity;
  ++plan.epoch;

  const Policy policy = options.policy == Policy::kAuto ? state.selector.choose() : options.policy;
  if (is_batch_invariant(policy)) check_uniform(policy, state.selector.tiles());
  state.lay_out(forest, policy, options);

  // `flat` without cuts needs sizes that are known from the requests alone, so capacities can be made for it.
  if (exceeds_capacity(plan)) {
    if (is_batch_invariant(policy)) {
      fail(ErrorCode::kWorkspace, "the batch needs ", excess_of(plan), "; policy ", name_of(policy),
           " falls back to no other, which would give other bits");
    }
    state.fallback.policies = options.policies;  // any tile will do
    state.fallback.split = KvSplit::kNone;
    state.selector.reset(forest, shape, state.profile, state.fallback);
    state.lay_out(forest, Policy::kFlat, state.fallback);
    plan.statistics.fallbacks = 1;
    if (exceeds_capacity(plan)) {
      fail(ErrorCode::kWorkspace, "the batch needs ", excess_of(plan), ", even with policy flat and no KV cuts");
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
  state_->selector.reset(forest, shape, state_->profile, options);
  std::vector<PolicyEstimate> estimates;
  for (const Policy policy : auto_candidates(state_->profile.device)) {
    const Estimate estimate = state_->selector.estimate(policy);
    estimates.push_back({policy, static_cast<double>(estimate.time) / 1e3, estimate.tokens_read});
  }
  return estimates;
}

Plan make_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
               const PlanOptions& options) {
  return Planner(profile).plan(forest, shape, options);
}

}  // namespace trunkline
