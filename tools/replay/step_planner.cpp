#include "replay/step_planner.hpp"

#include <chrono>
#include <thread>

namespace trunkline::replay {
namespace {

using Clock = std::chrono::steady_clock;

double us_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

}  // namespace

StepPlanner::StepPlanner(const MachineProfile& profile, const AttentionShape& shape, const LivePlanOptions& options,
                         bool async) {
  if (async) {
    async_.emplace(profile, shape, options);
  } else {
    live_.emplace(profile, shape, options);
  }
}

StepPlan StepPlanner::plan(LiveBatch& batch, double room_us) {
  StepPlan result;
  const Clock::time_point begin = Clock::now();
  if (live_) {
    result.plan = &live_->plan(batch);
    result.exposed_us = us_between(begin, Clock::now());
    result.source = live_->source();
    return result;
  }
  const bool asked = async_->submit(batch);
  const Clock::time_point submitted = Clock::now();
  Clock::time_point now = submitted;
  while (asked && !async_->poll() && us_between(submitted, now) < room_us) {
    std::this_thread::yield();
    now = Clock::now();
  }
  result.hidden_us = asked ? us_between(submitted, now) : 0;
  result.plan = &async_->take(batch);
  result.exposed_us = us_between(begin, submitted) + us_between(now, Clock::now());
  result.source = async_->source();
  return result;
}

}  // namespace trunkline::replay
