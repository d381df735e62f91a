// How the CPU executor divides the caller's workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/resolved.hpp"
#include "trunkline/batch.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cpu {

/// Marks a workspace that resolve() has filled.
inline constexpr std::uint64_t kWorkspaceMagic = 0x74726E6B6C696E65;

/// Sizes and epoch of a plan, by which resolve() notices that a planner has overwritten it.
struct PlanMark {
  std::uint64_t epoch = 0;
  std::size_t queries = 0;
  std::size_t items = 0;
  std::size_t spans = 0;
  std::size_t merges = 0;
  std::int32_t partials = 0;
  bool operator==(const PlanMark&) const = default;
};
PlanMark mark_of(const Plan& plan);

/// The numbers that the sizes of a workspace follow from.
struct WorkspaceSizes {
  std::size_t queries = 0;
  std::size_t items = 0;
  std::size_t spans = 0;
  std::size_t merges = 0;  // queries with partials
  std::size_t partials = 0;
  std::int32_t rows = 0;  // of the batch
  std::int32_t workers = 1;
  std::size_t scratch_floats = 0;  // of one worker
};

/// At the front of the workspace: what resolve() leaves for run().
struct WorkspaceHeader {
  std::uint64_t magic;
  std::uint64_t owner;  // WorkspaceOwner's id and stamp
  std::uint64_t stamp;
  const Plan* plan;
  PlanMark mark;  // of the plan when it was resolved
  Batch batch;
  std::size_t bytes;  // that the layout takes
  WorkspaceSizes sizes;
  std::int32_t tree_depth;  // tree_depth_of() the plan
  std::int32_t next_task;   // atomic: the front of the queue
  std::int32_t next_merge;  // atomic
};

/// Pieces of a workspace, each 64-byte aligned.
struct Workspace {
  WorkspaceHeader* header = nullptr;
  std::span<ResolvedQuery> queries;       // [plan.queries]
  std::span<ResolvedSpan> spans;          // [plan.spans]
  std::span<std::int32_t> slot_table;     // during resolve
  std::span<std::int32_t> query_merge;    // [plan.queries] index into plan.merge_queries, or -1
  std::span<std::int32_t> merge_arrived;  // [merge_queries, kv_heads] atomic: partials arrived; back to 0 after a run
  std::span<std::int32_t> first_task;     // [items + 1] by place in the schedule: the number of its first task
  std::span<std::int32_t> item_heads;     // [items] by place in the schedule: KV heads that each of its tasks takes
  std::span<float> partial_out;           // [partials, Hq, d]
  std::span<float> partial_lse;           // [partials, Hq]
  std::span<float> scratch;               // [workers, scratch_floats]
  std::size_t scratch_floats = 0;         // of one worker
  std::size_t bytes = 0;                  // used in all
};

/// Lays the pieces out from `base`; with a null base only the sizes are meaningful.
Workspace lay_out_workspace(std::byte* base, const AttentionShape& shape, const WorkspaceSizes& sizes);

}  // namespace trunkline::cpu
