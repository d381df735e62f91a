// What a CudaPlanner is: memory for the kernels that plan, and their launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "exec/cuda/planner/forest_kernel.hpp"
#include "exec/cuda/planner/host_report.hpp"
#include "exec/cuda/planner/plan_kernel.hpp"
#include "exec/cuda/resolve.hpp"
#include "exec/workspace_owner.hpp"
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
  /// Where resolve tells it: as long as a workspace that was planned into may be resolved.
  std::shared_ptr<HostReport> host_report() const { return report_; }

  /// An empty plan of the shape and capacity, for whom its room is all that matters.
  Plan room() const;
  /// \throws Error(kInvalidArgument) as CudaExecutor::plan; Error(kWorkspace) where its memory is another's since.
  void check(const TeamBatch& batch, std::int32_t page_size) const;
  /// Plans into lists that have the capacity's room, or keeps what it planned there last.
  /// \param told in the same workspace
  void launch(const TeamBatch& batch, const PlanLists& lists, PlanTold* told, const LaunchCounters& counters,
              cudaStream_t stream);

 private:
  /// Addresses of all that it keeps, from the base of its memory on.
  struct Memory {
    TeamMachine* machine;
    ForestReport* found;
    SteadyRows steady;
    std::uint64_t* written;
    TeamForest forest;
    std::byte* scratch;  // null where shared memory serves
    std::uint64_t* steps;
    PlanMemory plan;
    std::size_t bytes;
  };
  Memory lay_out(std::byte* base) const;

  AttentionShape shape_;
  CudaPlannerOptions options_;
  TeamMachine machine_;
  bool clusters_;
  std::size_t scratch_bytes_ = 0;
  std::size_t memory_bytes_ = 0;
  WorkspaceOwner owner_;
  std::uint64_t stamp_ = 0;  // of its memory
  std::byte* base_ = nullptr;
  Memory memory_{};
  std::shared_ptr<HostReport> report_;
};

}  // namespace trunkline::cuda
