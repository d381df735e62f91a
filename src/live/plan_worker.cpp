#include "live/plan_worker.hpp"

#include <utility>

namespace trunkline {

PlanWorker::PlanWorker(MachineProfile profile, const AttentionShape& shape, const PlanOptions& options)
    : planner_(std::move(profile)), shape_(shape), options_(options) {
  plans_.visit_all([this](auto& made) { made = std::make_unique<MadePlan>(planner_.profile()); });
  thread_ = std::thread([this] { work(); });
}

PlanWorker::~PlanWorker() {
  ending_.store(true, std::memory_order_release);
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_one();
  thread_.join();
}

void PlanWorker::submit() {
  jobs_.draft().number = ++submitted_;
  jobs_.publish();
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_one();
}

// A call that comes while a plan is made changes the count, so that the next wait returns at once.
void PlanWorker::work() {
  std::uint32_t seen = 0;
  while (true) {
    calls_.wait(seen, std::memory_order_acquire);
    seen = calls_.load(std::memory_order_acquire);
    if (ending_.load(std::memory_order_acquire)) return;
    const PlanJob* const job = jobs_.take();
    if (job == nullptr) continue;
    make(*job, *plans_.draft());
    plans_.publish();
    done_.store(job->number, std::memory_order_release);
  }
}

void PlanWorker::make(const PlanJob& job, MadePlan& made) {
  made.number = job.number;
  made.reason = job.reason;
  made.origin = job.origin;
  made.error.reset();
  try {
    made.plan = planner_.plan(job.forest, shape_, options_);
    made.balance.expect(job.forest, job.lengths);
    made.balance.read(made.plan);
  } catch (const Error& error) {
    made.error = error;
  } catch (const std::exception& error) {
    made.error = Error(ErrorCode::kInternal, error.what());
  }
}

}  // namespace trunkline
