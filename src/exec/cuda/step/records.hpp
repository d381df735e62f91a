// What the host knows of workspaces, whose content is on the device, where run() must not look.
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
  bool captured_single_query =
      false;  ///< and a run of the kernel of single queries, whose bits are not the other kernels'
  // Of the last upload.
  std::uint64_t stamp = 0;  ///< WorkspaceOwner's
  TensorCounts counts;
  std::int32_t rows = 0;
  std::uint32_t tiles = 0;
  std::size_t tasks = 0;  ///< (item, KV head) pairs
  bool invariant = false;
  /// Of all planners on the device that planned here: a resolve, which may be in a graph, writes that of the last.
  std::vector<std::shared_ptr<HostReport>> reports;
  // Of the last resolve; no ids before one.
  DevicePages pages{};
  bool resolved = false;
  // Of record_tasks().
  experimental::CudaTaskTime* times = nullptr;
  std::size_t times_count = 0;
};

/// One for each workspace that holds a plan.
class WorkspaceRecords {
 public:
  /// The record that a plan's upload makes. A workspace keeps its layout while plans fit it, so that graphs which hold
  /// its addresses stay true. \throws Error(kWorkspace) when it is too small or misaligned, or is part of a graph and
  /// was laid out for another shape or a lesser capacity.
  /// \param needed of this plan, or of all that a planner on the device may write
  WorkspaceRecord next(const Plan& plan, const PlanSizes& needed, const KernelFamily& family, MergeMode merge,
                       std::size_t single_query_scratch, void* workspace, std::size_t bytes) const;
  /// Before a plan is written: runs of other executors that had one in this memory are refused from now on.
  void claim(WorkspaceRecord& record) const;
  /// Takes the place of all workspaces that lay in the same memory.
  void keep(const WorkspaceRecord& record);
  /// \throws Error(kWorkspace) when it holds no plan, or another executor's since.
  WorkspaceRecord& uploaded(const void* workspace);
  void forget(const void* workspace);

 private:
  const WorkspaceRecord* find(const void* workspace) const;

  WorkspaceOwner owner_;
  std::vector<WorkspaceRecord> records_;
};

}  // namespace trunkline::cuda
