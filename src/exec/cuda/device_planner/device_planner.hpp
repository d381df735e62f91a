// What a CudaPlanner is: memory for the kernels that plan, and their launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "exec/cuda/device_planner/host_report.hpp"
#include "exec/cuda/device_planner/planner_kernels.hpp"
#include "exec/workspace_owner.hpp"
#include "plan/device/planner_phases.hpp"
#include "trunkline/cuda_planner.hpp"

namespace trunkline::cuda {

class DevicePlanner {
 public:
  DevicePlanner(const MachineProfile& profile, const AttentionShape& shape, const CudaPlannerOptions& options);

  const AttentionShape& shape() const { return shape_; }
  const CudaPlannerOptions& options() const { return options_; }
  std::size_t memory_bytes() const { return memory_bytes_; }
  void bind(void* memory, std::size_t bytes, cudaStream_t stream);
  CudaPlanReport report() const { return report_->read(); }
  /// Where resolve publishes it: as long as a workspace that was planned into may be resolved.
  std::shared_ptr<HostReport> host_report() const { return report_; }

  /// An empty plan of the planner's shape and capacity, to lay out workspaces by.
  Plan empty_plan() const;
  /// \throws Error(kInvalidArgument) as CudaExecutor::plan; Error(kWorkspace) where its memory is another's since.
  void check(const DeviceBatch& batch, std::int32_t page_size) const;
  /// Plans into lists of the planner's capacity, or reuses what it planned there last.
  /// \param report in the same workspace
  void launch(const DeviceBatch& batch, const PlanLists& lists, PlannerReport* report, const LaunchCounters& counters,
              cudaStream_t stream);

 private:
  /// Addresses of all that it keeps, from the base of its memory on.
  struct Memory {
    PlannerMachine* machine = nullptr;
    std::uint64_t* steps = nullptr;    // [2] how many were planned, and reused
    std::uint64_t* written = nullptr;  // PlannerArgs::written
    PlannerMemory phases;
    std::byte* searches = nullptr;
    std::size_t bytes = 0;
  };
  Memory lay_out(std::byte* base) const;

  AttentionShape shape_;
  CudaPlannerOptions options_;
  PlannerMachine machine_;
  std::size_t memory_bytes_ = 0;
  std::size_t shared_bytes_ = 0;  // that kernels may have
  WorkspaceOwner owner_;
  std::uint64_t stamp_ = 0;  // of its memory
  std::byte* base_ = nullptr;
  Memory memory_;
  std::shared_ptr<HostReport> report_;
};

}  // namespace trunkline::cuda
