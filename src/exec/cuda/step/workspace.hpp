// How the CUDA executor divides the caller's device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "plan/device/plan_lists.hpp"
#include "trunkline/attention.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cuda {

/// Room for each list of a plan. Where Plan::capacity limits queries, spans, items or partials, its room and that of
/// what follows from it depend on the limit alone, so every plan of one capacity lies at the same addresses:
/// - item_queries: queries + partials, since a query is in one item alone, or has a partial in each;
/// - merges: queries; merge_slots: partials;
/// - masks: one a span, and one for each token of a draft tree in each of its items: queries * ceil(min(queries, 256) /
///   M), M the queries of a 64-row item, for trees of up to 256 query tokens.
/// A plan that has more (a list without a limit, masks of larger trees) takes its own size.
struct PlanRoom {
  std::size_t queries = 0;
  std::size_t items = 0;
  std::size_t item_queries = 0;
  std::size_t spans = 0;
  std::size_t masks = 0;
  std::size_t merges = 0;
  std::size_t merge_slots = 0;
  std::size_t partials = 0;
};
PlanRoom room_of_plan(const Plan& plan);
PlanRoom room_of_capacity(const Plan& plan);

/// The first list of `needed` that is longer than in `room`, with both numbers; nullptr where all fit.
struct Shortage {
  const char* list = nullptr;
  std::size_t needed = 0;
  std::size_t room = 0;
};
Shortage find_shortage(const PlanRoom& needed, const PlanRoom& room);

/// Kernels that may run at once, each with its own queue: in streams mode, one a tile.
inline constexpr std::int32_t kMaxQueues = 8;

/// A queue's front and the count of CTAs that have left it; a sector apart from other queues.
struct alignas(32) QueueCounters {
  std::int32_t next_task;
  std::int32_t done;
};

/// Offsets from the workspace's begin; each 256-byte aligned. What upload() writes comes first, masks last of it, so
/// that it is one copy of no more than what is used.
struct WorkspaceLayout {
  std::size_t queues = 0;  ///< QueueCounters [kMaxQueues]; upload() makes them 0, and each kernel leaves them so
  std::size_t cluster_arrivals = 0;  ///< [single_query::kCounters], likewise
  std::size_t counts = 0;
  std::size_t queries = 0;
  std::size_t items = 0;
  std::size_t item_queries = 0;
  std::size_t item_outputs = 0;
  std::size_t spans = 0;
  std::size_t merge_queries = 0;
  std::size_t merge_begin = 0;
  std::size_t merge_slots = 0;
  std::size_t partial_merges = 0;  ///< fused merges alone
  std::size_t schedule = 0;
  std::size_t masks = 0;
  std::size_t arrived = 0;      ///< [merges, Hkv], fused merges alone; made 0 after each upload, and runs leave it so
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
/// What kernels take beside a plan.
struct KernelBytes {
  std::size_t prologue = 0;              ///< KernelFamily::prologue_bytes()
  std::size_t single_query_scratch = 0;  ///< single_query::scratch_bytes()
};
WorkspaceLayout lay_out(const PlanRoom& room, const AttentionShape& shape, MergeMode merge, const KernelBytes& kernels);

/// What kernels are given of a workspace.
StepArgs step_args(std::byte* base, const WorkspaceLayout& layout, const DevicePages& pages);
/// Where a planner on the device writes.
PlanLists plan_lists(std::byte* base, const WorkspaceLayout& layout, MergeMode merge);
Partials device_partials(std::byte* base, const WorkspaceLayout& layout);

}  // namespace trunkline::cuda
