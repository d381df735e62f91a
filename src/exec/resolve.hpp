// Fits a plan to the live batch: slots to rows, open ends to lengths. Once a step, for all layers.
#pragma once

#include <cstdint>
#include <span>

#include "exec/live_rows.hpp"
#include "exec/resolved.hpp"
#include "trunkline/batch.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Memory for resolve_plan, all owned by the caller.
struct ResolveOutput {
  std::span<std::int32_t> slot_table;  ///< slot_table_size(rows)
  std::span<ResolvedSpan> spans;       ///< plan.spans.size()
  std::span<ResolvedQuery> queries;    ///< plan.queries.size()
};

/// Does not allocate. \throws Error(kStale) where the plan's slots, generations or query counts are not the batch's, or
/// a length has fallen below a closed span's end; check_batch's errors for a malformed batch.
void resolve_plan(const Plan& plan, const Batch& batch, const ResolveOutput& output);

/// The maximum number of ancestors among the drafts, over the queries whose position in the cache is not that in the
/// text: those of a draft tree's later branches. Kernels count windows in cache positions, so windows must hold all of
/// these ancestors.
std::int32_t tree_depth_of(const Plan& plan, std::span<const ResolvedQuery> queries);

}  // namespace trunkline
