// The implementation of CudaPlanner: the memory of the planning kernels, and their launches.
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
  /// The report that resolve publishes. It must live as long as a workspace with a plan of this planner may be
  /// resolved.
  std::shared_ptr<HostReport> host_report() const { return report_; }

  /// Returns an empty plan of the shape and capacities, from which workspaces are laid out.
  Plan empty_plan() const;
  /// Checks a batch. \throws Error(kInvalidArgument) as CudaExecutor::plan; Error(kWorkspace) if another planner or
  /// executor has claimed the memory since
  void check(const DeviceBatch& batch, std::int32_t page_size) const;
  /// Plans into lists of the capacities, or reuses the plan that it wrote there last.
  /// \param report in the same workspace
  void launch(const DeviceBatch& batch, const PlanLists& lists, PlannerReport* report, const LaunchCounters& counters,
              cudaStream_t stream);

 private:
  /// Addresses in the planner's memory.
  struct Memory {
    PlannerMachine* machine = nullptr;
    std::uint64_t* steps = nullptr;    // [2] numbers of plans made and of plans reused
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
  std::size_t shared_bytes_ = 0;  // dynamic shared memory that the kernels may have
  WorkspaceOwner owner_;
  std::uint64_t stamp_ = 0;  // WorkspaceOwner's, of the memory
  std::byte* base_ = nullptr;
  Memory memory_;
  std::shared_ptr<HostReport> report_;
};

}  // namespace trunkline::cuda
