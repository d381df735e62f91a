// The host's record of each workspace: the content is on the device, where run() must not read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/check_args.hpp"
#include "exec/cuda/device_planner/host_report.hpp"
#include "exec/cuda/kernels/kernel_families.hpp"
#include "exec/cuda/step/workspace.hpp"
#include "exec/workspace_owner.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::cuda {

struct WorkspaceRecord {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  AttentionShape shape;
  PlanSizes capacities;
  WorkspaceLayout layout;
  const KernelFamily* family = nullptr;
  bool captured = false;  ///< a graph holds its addresses
  /// A graph holds a run of the single-query kernel, whose bits differ from the other kernels'.
  bool captured_single_query = false;
  // State of the last upload.
  std::uint64_t stamp = 0;  ///< WorkspaceOwner's
  TensorCounts counts;
  std::int32_t rows = 0;
  std::uint32_t tiles = 0;
  std::size_t tasks = 0;  ///< (item, KV head) pairs
  bool invariant = false;
  /// Reports of all device planners that planned here: a resolve, which may be in a graph, writes the report of the
  /// last.
  std::vector<std::shared_ptr<HostReport>> reports;
  // State of the last resolve; `pages` has no ids before it.
  DevicePages pages{};
  bool resolved = false;
  // Arguments of record_tasks().
  experimental::CudaTaskTime* times = nullptr;
  std::size_t times_count = 0;
};

/// Records of all workspaces that hold a plan.
class WorkspaceRecords {
 public:
  /// Returns the record for a plan's upload. A workspace keeps its layout while plans fit it, so that graphs which hold
  /// its addresses stay valid. \throws Error(kWorkspace) if the workspace is too small or misaligned, or is part of a
  /// graph and was laid out for another shape or a smaller capacity \param needed capacity of this plan, or of any plan
  /// that a device planner may write
  WorkspaceRecord next(const Plan& plan, const PlanSizes& needed, const KernelFamily& family, MergeMode merge,
                       std::size_t single_query_scratch, void* workspace, std::size_t bytes) const;
  /// Claims the memory before a plan is written: runs of other executors with a plan in it are refused from now on.
  void claim(WorkspaceRecord& record) const;
  /// Stores a record, and removes records of workspaces in overlapping memory.
  void keep(const WorkspaceRecord& record);
  /// Returns the record of a workspace. \throws Error(kWorkspace) if it holds no plan, or by now another executor's
  WorkspaceRecord& uploaded(const void* workspace);
  /// Removes the record of a workspace, and gives up the claim on its memory.
  void remove(const void* workspace);

 private:
  const WorkspaceRecord* find(const void* workspace) const;

  WorkspaceOwner owner_;
  std::vector<WorkspaceRecord> records_;
};

}  // namespace trunkline::cuda
