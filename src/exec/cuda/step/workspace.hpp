// How the CUDA executor divides the caller's device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "plan/plan_lists.hpp"
#include "trunkline/attention.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cuda {

/// Kernels that may run at once, each with its own queue: in streams mode, one a tile.
inline constexpr std::int32_t kMaxQueues = 8;

/// A queue's front and the count of CTAs that have left it; a sector apart from other queues.
struct alignas(32) QueueCounters {
  std::int32_t next_task;
  std::int32_t done;
};

template <class T>
using ListOffset = std::size_t;

/// Offsets from the workspace's begin; each 256-byte aligned. What upload() writes comes first, masks last of it, so
/// that it is one copy of the bytes that are used.
struct WorkspaceLayout : PlanListsOf<ListOffset> {
  std::size_t queues = 0;  ///< QueueCounters [kMaxQueues]; upload() makes them 0, and each kernel leaves them so
  std::size_t cluster_arrivals = 0;  ///< [single_query::kCounters], likewise
  std::size_t counts = 0;
  std::size_t arrived = 0;  ///< [merge_queries, Hkv], fused merges only; made 0 after each upload, and runs leave it so
  std::size_t first_fault = 0;  ///< of the page check
  std::size_t report = 0;       ///< PlannerReport
  std::size_t step_tasks = 0;
  std::size_t step_rows = 0;
  std::size_t step_spans = 0;
  std::size_t step_first_ids = 0;  ///< ResolveArgs::first_ids
  std::size_t step_prologues = 0;
  std::size_t nan_tasks = 0;  ///< ForwardArgs::nan_tasks
  std::size_t partial_out = 0;
  std::size_t partial_lse = 0;
  std::size_t single_query_scratch = 0;  ///< of single queries
  std::size_t bytes = 0;                 ///< in all
};
inline constexpr std::size_t kWorkspaceAlignment = 256;
/// Bytes that kernels need in a workspace beside the plan.
struct KernelBytes {
  std::size_t prologue = 0;              ///< KernelFamily::prologue_bytes()
  std::size_t single_query_scratch = 0;  ///< single_query::scratch_bytes()
};
WorkspaceLayout lay_out(const PlanSizes& capacities, const AttentionShape& shape, MergeMode merge,
                        const KernelBytes& kernels);

/// Returns the pointers into a workspace that kernels read.
StepArgs step_args(std::byte* base, const WorkspaceLayout& layout, const DevicePages& pages);
/// Returns the lists of a workspace, which a device planner writes.
PlanLists plan_lists(std::byte* base, const WorkspaceLayout& layout, MergeMode merge);
Partials device_partials(std::byte* base, const WorkspaceLayout& layout);

}  // namespace trunkline::cuda
