// A trace walked through a serving loop, decode step by decode step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "replay/arrivals.hpp"
#include "replay/scheduler.hpp"
#include "replay/step_planner.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::replay {

struct ReplayOptions {
  AttentionShape shape;  ///< of a layer; its device is the machine's
  LivePlanOptions plan;
  bool async = true;
  std::vector<Policy> policies;   ///< priced beside the policy that plans
  std::int32_t price_every = 16;  ///< steps between prices, where the plan is kept
  std::int32_t layers = 32;       ///< that share a plan: attention takes so many times the predicted time
  double rest_us = 5000;          ///< of a step: all but attention
  double prompt_token_us = 30;    ///< of a step, for each token of a prompt
  std::optional<double> step_us;  ///< the time of each step, instead of all that
  std::int64_t max_steps = 0;     ///< decode steps; 0: to the end
  bool validate = false;          ///< each step's plan, by the validator
  SchedulerOptions scheduler;
};

/// Predicted time and traffic of a policy in a step, for one layer.
struct PolicyPrice {
  Policy policy = Policy::kFlat;
  double predicted_us = 0;
  std::int64_t kv_bytes = 0;  ///< read
  std::int64_t partial_bytes = 0;
};

struct StepRecord {
  std::int64_t step = 0;  ///< from 1
  double time_s = 0;      ///< when it begins, by the clock of the replay
  std::int32_t requests = 0;
  std::int32_t queries = 0;
  std::int64_t kv_tokens_total = 0;
  std::int64_t kv_tokens_distinct = 0;
  std::int32_t nodes = 0;
  double node_tokens_mean = 0;
  double node_tokens_deviation = 0;  ///< standard deviation of the nodes' lengths
  StepWork work;
  std::int64_t held_pages = 0;
  std::int64_t cached_pages = 0;
  PlanSource source = PlanSource::kReused;
  Policy chosen = Policy::kFlat;  ///< by the plan that the step runs
  double exposed_us = 0;
  double hidden_us = 0;
  bool priced = false;              ///< in this step; else `price` and `prices` are of the last that was
  PolicyPrice price;                ///< of the policy that plans, made anew
  std::vector<PolicyPrice> prices;  ///< of ReplayOptions::policies
  double step_us = 0;               ///< by the clock of the replay

  /// KV tokens that a one-request-at-a-time kernel reads, over distinct ones.
  double sharing() const {
    return kv_tokens_distinct == 0 ? 1 : static_cast<double>(kv_tokens_total) / static_cast<double>(kv_tokens_distinct);
  }
};

/// The work of one turn of the serving loop.
enum class LoopTurn { kDecoded, kOther, kDone };

class Replay {
 public:
  /// \param trace outlives the replay \throws Error as Scheduler, Arrivals and the planners.
  Replay(const Trace& trace, const ArrivalOptions& arrivals, const MachineProfile& profile,
         const ReplayOptions& options);

  /// The same with requests from elsewhere; \param source outlives the replay
  Replay(const Trace& trace, RequestSource& source, const MachineProfile& profile, const ReplayOptions& options);

  /// One turn of the loop: a decode step, a step that computes prompts alone (kOther), or the time until the next
  /// arrival (kOther). \return kDone when the source has no more, or max_steps are made
  LoopTurn turn();
  /// Goes on to the end of the next decode step. \return false when there is none
  bool step();

  const StepRecord& record() const { return record_; }
  /// The batch of the last step, and the plan that the step ran by.
  LiveBatch& live() { return scheduler_.batch().live(); }
  const Plan& plan() const { return *plan_; }
  Scheduler& scheduler() { return scheduler_; }
  std::int64_t prompt_steps() const { return prompt_steps_; }
  double now_s() const { return now_s_; }
  /// Sum of the times of all steps.
  double busy_s() const { return busy_s_; }

 private:
  void pass(double step_us);
  void decode(double room_us);
  void describe(const Forest& forest);
  void price(const Forest& forest);
  PolicyPrice price_of(const Forest& forest, Policy policy);

  ReplayOptions options_;
  std::optional<Arrivals> arrivals_;  // where no other source is given
  RequestSource* source_;
  Scheduler scheduler_;
  StepPlanner step_planner_;
  Planner planner_;  // for prices
  const Plan* plan_ = nullptr;
  StepRecord record_;
  std::int64_t unpriced_ = 0;  // steps since the last prices
  std::int64_t prompt_steps_ = 0;
  EventCounts events_;  // since the last decode step
  double room_us_ = 0;  // the time of the last decode step, in which the next plan can be made
  double busy_s_ = 0;
  double now_s_ = 0;
};

}  // namespace trunkline::replay
