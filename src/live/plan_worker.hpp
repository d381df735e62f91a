// The thread that makes plans.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/forks.hpp"
#include "live/kept_plan.hpp"
#include "live/latest_value.hpp"
#include "live/plan_balance.hpp"
#include "trunkline/error.hpp"
#include "trunkline/live.hpp"

namespace trunkline {

/// A plan to make.
struct PlanJob {
  std::uint64_t number = 0;
  PlanSource reason = PlanSource::kMembership;
  PlanOrigin origin;
  Forest forest;
  std::vector<std::int32_t> lengths;  // by slot
};

/// A plan, and all that its keeper needs to know.
struct MadePlan {
  explicit MadePlan(const MachineProfile& profile) : balance(profile) {}

  std::uint64_t number = 0;  // of its job
  PlanSource reason = PlanSource::kMembership;
  PlanOrigin origin;
  Plan plan;
  PlanBalance balance;
  std::optional<Error> error;  // instead of a plan
};

/// Jobs and plans go through mailboxes that hold the newest, so that neither side waits for the other. All but the
/// thread's own work is called by one thread.
class PlanWorker {
 public:
  PlanWorker(MachineProfile profile, const AttentionShape& shape, const PlanOptions& options);
  /// Waits for the plan that is being made. Only where the thread is.
  ~PlanWorker();
  PlanWorker(const PlanWorker&) = delete;
  PlanWorker& operator=(const PlanWorker&) = delete;

  /// The next job, to be filled; its number is set by submit().
  PlanJob& draft() { return jobs_.draft(); }
  void submit();
  /// The newest plan that was made since the last call. It may be exchanged for another MadePlan, but not for none.
  std::unique_ptr<MadePlan>* take() { return plans_.take(); }
  std::uint64_t submitted() const { return submitted_; }
  /// Whether the thread is in this process: a forked child has not got it.
  bool is_here() const { return process_ == forks(); }
  bool idle() const { return done_.load(std::memory_order_acquire) == submitted_; }
  const MachineProfile& profile() const { return planner_.profile(); }

 private:
  void work();
  void make(const PlanJob& job, MadePlan& made);

  Planner planner_;  // the thread's
  AttentionShape shape_;
  PlanOptions options_;
  LatestValue<PlanJob> jobs_;
  LatestValue<std::unique_ptr<MadePlan>> plans_;
  std::uint64_t submitted_ = 0;
  const std::uint32_t process_ = forks();
  std::atomic<std::uint64_t> done_{0};   // the last job that was planned
  std::atomic<std::uint32_t> calls_{0};  // grows with every job, and at the end
  std::atomic<bool> ending_{false};
  std::thread thread_;  // last, as it uses the others
};

}  // namespace trunkline
