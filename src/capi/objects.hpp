// The objects behind the handles.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "capi/handles.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/live.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline::capi {

struct TextObject final : Object {
  static constexpr Kind kKind = Kind::kText;
  explicit TextObject(std::string given) : text(std::move(given)) {}
  const std::string text;
};

struct ProfileObject final : Object {
  static constexpr Kind kKind = Kind::kProfile;
  explicit ProfileObject(MachineProfile given, FigureSources figure_sources = {})
      : profile(std::move(given)), sources(std::move(figure_sources)) {}
  const MachineProfile profile;
  const FigureSources sources;  // empty: made without a file
};

struct ForestObject final : Object {
  static constexpr Kind kKind = Kind::kForest;
  const Forest& forest() const { return *current; }

  const Forest empty{};
  const Forest* current = &empty;  // of these, or a live batch's
  ForestBuilder builder;
  Forest from_tree;
};

struct PlanObject final : Object {
  static constexpr Kind kKind = Kind::kPlan;
  const Plan& plan() const { return *current; }

  const Plan* current = nullptr;  // `copy`, or the planner's that replaces it from time to time
  std::optional<Plan> copy;
};

/// A planner's plan, as its handle shows it.
class PlanLease {
 public:
  PlanLease() : object_(std::make_shared<PlanObject>()), lease_(Kind::kPlan, object_) {}

  /// Calls `make`, which returns a plan and whether it is the one from before. \return the plan's handle
  /// \throws Failure BUSY while another thread uses the plan from before
  template <class Make>
  const trunkline_plan* renew(Make&& make) {
    Lease::Change change(lease_);
    const auto [plan, kept] = make();
    if (kept && change.had_handle() && object_->current == plan) return as_handle(change.keep());
    object_->current = plan;
    return as_handle(change.replace());
  }
  /// Ends the handle. \throws Failure BUSY
  void end() { const Lease::Change change(lease_); }

 private:
  static const trunkline_plan* as_handle(void* handle) { return static_cast<const trunkline_plan*>(handle); }

  std::shared_ptr<PlanObject> object_;
  Lease lease_;
};

struct PlannerObject final : Object {
  static constexpr Kind kKind = Kind::kPlanner;
  explicit PlannerObject(const MachineProfile& profile) : planner(profile) {}
  Planner planner;
  PlanLease plan;
};

struct LiveBatchObject final : Object {
  static constexpr Kind kKind = Kind::kLiveBatch;
  explicit LiveBatchObject(const LiveBatchOptions& options) : live(options) {}
  LiveBatch live;
  std::shared_ptr<ForestObject> forest = std::make_shared<ForestObject>();
  Lease forest_lease{Kind::kForest, forest};
  bool owned_by_tree = false;  // a sequence tree's, which alone edits it
};

/// LivePlanner or AsyncPlanner, which serves the live batch that it met first.
template <class AnyPlanner, Kind kind>
struct StepPlannerObject final : Object {
  static constexpr Kind kKind = kind;
  StepPlannerObject(const MachineProfile& profile, const AttentionShape& shape, const LivePlanOptions& options)
      : planner(profile, shape, options) {}
  void bind(const trunkline_live_batch* live) {
    if (batch == nullptr) batch = live;
    if (batch != live) fail(ErrorCode::kInvalidArgument, "live is another live batch than this planner's first");
  }

  AnyPlanner planner;
  const trunkline_live_batch* batch = nullptr;
  PlanLease plan;
};
using LivePlannerObject = StepPlannerObject<LivePlanner, Kind::kLivePlanner>;
using AsyncPlannerObject = StepPlannerObject<AsyncPlanner, Kind::kAsyncPlanner>;

/// CPU threads; one run at a time.
struct WorkersObject final : Object {
  static constexpr Kind kKind = Kind::kWorkers;
  explicit WorkersObject(std::unique_ptr<Workers> given) : workers(std::move(given)) {}
  const std::unique_ptr<Workers> workers;
  std::atomic<bool> in_use{false};
};

/// Use of workers until the end of this object. \throws Failure BUSY
class WorkersUse {
 public:
  explicit WorkersUse(WorkersObject& workers) : workers_(workers) {
    if (workers.in_use.exchange(true, std::memory_order_acquire)) {
      throw Failure(TRUNKLINE_BUSY, "the workers are running for another call");
    }
  }
  ~WorkersUse() { workers_.in_use.store(false, std::memory_order_release); }
  WorkersUse(const WorkersUse&) = delete;
  WorkersUse& operator=(const WorkersUse&) = delete;

 private:
  WorkersObject& workers_;
};

/// A handle of the caller's own to a text.
inline trunkline_text* publish_text(std::string text) {
  return static_cast<trunkline_text*>(publish(std::make_shared<TextObject>(std::move(text))));
}

}  // namespace trunkline::capi
