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

/// At the front of the workspace: what resolve() leaves for run().
struct WorkspaceHeader {
  std::uint64_t magic;
  const Plan* plan;
  Batch batch;
  std::size_t bytes;     // that the layout takes
  std::int32_t workers;  // that it was laid out for
  CpuIsa isa;            // likewise
  std::int32_t heads_per_task;
  std::int32_t head_groups;  // tasks of one item: kv_heads / heads_per_task, rounded up
  std::int32_t next_task;    // atomic: the front of the queue
  std::int32_t next_merge;   // atomic
};

/// Pieces of a workspace, each 64-byte aligned.
struct Workspace {
  WorkspaceHeader* header = nullptr;
  std::span<ResolvedQuery> queries;     // [plan.queries]
  std::span<ResolvedSpan> spans;        // [plan.spans]
  std::span<std::int32_t> slot_table;   // during resolve
  std::span<std::int32_t> query_merge;  // [plan.queries] index into plan.merge_queries, or -1
  std::span<std::int32_t>
      merge_arrived;             // [merge_queries, kv_heads] atomic: partials that have arrived; back to 0 after a run
  std::span<float> partial_out;  // [partials, Hq, d]
  std::span<float> partial_lse;  // [partials, Hq]
  std::span<float> scratch;      // [workers, scratch_floats]
  std::size_t scratch_floats = 0;  // of one worker
  std::size_t bytes = 0;           // used in all
};

/// Lays the pieces out from `base`; with a null base only the sizes are meaningful.
Workspace lay_out_workspace(std::byte* base, const Plan& plan, std::int32_t rows, std::int32_t workers,
                            std::size_t scratch_floats);

}  // namespace trunkline::cpu
