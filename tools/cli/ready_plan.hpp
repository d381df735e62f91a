// A plan made ready to run.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "synthetic/arena.hpp"
#include "trunkline/attention.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cli {

/// A plan with a workspace of its own, resolved for a batch. Executor and batch outlive it.
class ReadyPlan {
 public:
  ReadyPlan(Plan plan, const CpuExecutor& executor, const Batch& batch)
      : plan_(std::move(plan)),
        bytes_(executor.workspace_bytes(plan_, batch.rows())),
        workspace_(bytes_),
        executor_(executor) {
    executor_.resolve(plan_, batch, workspace());
  }
  const Plan& plan() const { return plan_; }
  std::size_t workspace_bytes() const { return bytes_; }
  void resolve(const Batch& batch) { executor_.resolve(plan_, batch, workspace()); }
  void run(const AttentionArgs& args) { executor_.run(args, workspace()); }

 private:
  std::span<std::byte> workspace() { return {workspace_.data(), bytes_}; }

  Plan plan_;
  std::size_t bytes_;
  Arena workspace_;
  const CpuExecutor& executor_;
};

}  // namespace trunkline::cli
