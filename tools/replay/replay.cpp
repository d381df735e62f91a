#include "replay/replay.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"

namespace trunkline::replay {
namespace {

constexpr double kUsPerSecond = 1e6;

void check_not_negative(const char* name, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  fail(ErrorCode::kInvalidArgument, name, " is ", value, "; a number from 0 on is needed");
}

// With a shape for the machine's device: a plan for another machine is a prediction.
ReplayOptions checked(ReplayOptions options, const MachineProfile& profile) {
  check_not_negative("--rest-us", options.rest_us);
  check_not_negative("--prompt-us", options.prompt_token_us);
  if (options.step_us && !(*options.step_us > 0 && std::isfinite(*options.step_us))) {
    fail(ErrorCode::kInvalidArgument, "--step-us is ", *options.step_us, "; a number above 0 is needed");
  }
  if (options.layers < 1) fail(ErrorCode::kInvalidArgument, "--layers is ", options.layers, "; at least 1 is needed");
  if (options.price_every < 1) {
    fail(ErrorCode::kInvalidArgument, "--price-every is ", options.price_every, "; at least 1 is needed");
  }
  options.shape.device = profile.device;
  options.scheduler.page_size = options.shape.page_size;
  return options;
}

}  // namespace

Replay::Replay(const Trace& trace, const ArrivalOptions& arrivals, const MachineProfile& profile,
               const ReplayOptions& options)
    : options_(checked(options, profile)),
      arrivals_(std::in_place, trace, arrivals),
      source_(&*arrivals_),
      scheduler_(trace, *source_, options_.scheduler),
      step_planner_(profile, options_.shape, options_.plan, options_.async),
      planner_(profile) {}

Replay::Replay(const Trace& trace, RequestSource& source, const MachineProfile& profile, const ReplayOptions& options)
    : options_(checked(options, profile)),
      source_(&source),
      scheduler_(trace, *source_, options_.scheduler),
      step_planner_(profile, options_.shape, options_.plan, options_.async),
      planner_(profile) {}

bool Replay::step() {
  LoopTurn last = turn();
  while (last == LoopTurn::kOther) last = turn();
  return last == LoopTurn::kDecoded;
}

LoopTurn Replay::turn() {
  if (options_.max_steps > 0 && record_.step == options_.max_steps) return LoopTurn::kDone;
  if (scheduler_.done()) return LoopTurn::kDone;
  record_.work = scheduler_.begin_step(now_s_);
  events_ += record_.work.events;
  record_.work.events = events_;
  if (live().rows() > 0) {
    decode(std::max(room_us_, record_.step_us));
    events_ = {};
    room_us_ = record_.step_us;
    return LoopTurn::kDecoded;
  }
  if (record_.work.prompt_tokens > 0) {
    ++prompt_steps_;
    pass(options_.step_us.value_or(options_.rest_us + options_.prompt_token_us * record_.work.prompt_tokens));
  } else if (record_.work.idle && source_->next_s()) {
    now_s_ = std::max(now_s_, *source_->next_s());
  }
  return LoopTurn::kOther;
}

void Replay::pass(double step_us) {
  record_.step_us = step_us;
  busy_s_ += step_us / kUsPerSecond;
  now_s_ += step_us / kUsPerSecond;
}

void Replay::decode(double room_us) {
  LiveBatch& batch = live();
  ++record_.step;
  record_.time_s = now_s_;
  const StepPlan planned = step_planner_.plan(batch, room_us);
  plan_ = planned.plan;
  record_.source = planned.source;
  record_.exposed_us = planned.exposed_us;
  record_.hidden_us = planned.hidden_us;
  record_.chosen = plan_->policy;
  const Forest& forest = batch.forest();
  if (options_.validate) validate_plan(*plan_, forest);
  describe(forest);
  record_.priced = planned.source != PlanSource::kReused || ++unpriced_ >= options_.price_every;
  if (record_.priced) price(forest);
  pass(options_.step_us.value_or(options_.layers * record_.price.predicted_us + options_.rest_us +
                                 options_.prompt_token_us * record_.work.prompt_tokens));
}

void Replay::describe(const Forest& forest) {
  record_.requests = static_cast<std::int32_t>(forest.requests.size());
  record_.queries = 0;
  for (const ForestRequest& request : forest.requests) record_.queries += request.queries;
  record_.kv_tokens_total = forest.total_tokens;
  record_.kv_tokens_distinct = forest.distinct_tokens;
  record_.nodes = static_cast<std::int32_t>(forest.nodes.size());
  const double nodes = std::max(record_.nodes, 1);
  record_.node_tokens_mean = static_cast<double>(forest.distinct_tokens) / nodes;
  double squares = 0;
  for (const ForestNode& node : forest.nodes) squares += std::pow(node.tokens() - record_.node_tokens_mean, 2);
  record_.node_tokens_deviation = std::sqrt(squares / nodes);
  record_.held_pages = scheduler_.batch().held_pages();
  record_.cached_pages = scheduler_.batch().kv().cached_pages();
}

void Replay::price(const Forest& forest) {
  unpriced_ = 0;
  record_.price = price_of(forest, options_.plan.plan.policy);
  record_.prices.clear();
  for (const Policy policy : options_.policies) record_.prices.push_back(price_of(forest, policy));
}

PolicyPrice Replay::price_of(const Forest& forest, Policy policy) {
  PlanOptions plan = options_.plan.plan;
  plan.policy = policy;
  const PlanStatistics& statistics = planner_.plan(forest, options_.shape, plan).statistics;
  return {policy, statistics.predicted_us, statistics.kv_bytes_read, statistics.partial_bytes};
}

}  // namespace trunkline::replay
