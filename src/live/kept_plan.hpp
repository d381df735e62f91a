// A plan that is reused from step to step, and the checks of whether it still may be.
#pragma once

#include <cstdint>

#include "live/live_batch_state.hpp"
#include "live/plan_balance.hpp"
#include "trunkline/live.hpp"

namespace trunkline {

/// The counters of the batch when a plan was made.
struct PlanOrigin {
  std::uint64_t sharing = 0;
  std::uint64_t truncations = 0;
  std::uint64_t changes = 0;
};
inline PlanOrigin origin_of(const LiveBatchState& batch) {
  return {batch.sharing, batch.truncations, batch.changes};
}

/// Whether every request still has all tokens that a plan reads of it by position. Of requests that have a plan's
/// slots and generations, only truncated ones do not.
bool has_tokens_of(const LiveBatchState& batch, const Plan& plan);

/// Whether a plan is valid for a batch as it is. Reads the plan only after truncations, and then remembers that
/// these did no harm.
bool is_valid(const LiveBatchState& batch, const Plan& plan, PlanOrigin& origin);

/// Whether a plan of policy `invariant`, valid for a batch as it is, still cuts every request as a new one would; true
/// of other policies' plans.
bool cuts_hold(const LiveBatchState& batch, const Plan& plan);

/// \throws Error(kInvalidArgument) unless growth_limit is at least 1 and edit_share at least 0.
void check_live_options(const LivePlanOptions& options);
/// \throws Error(kInvalidArgument) when shape and batch differ in page size.
void check_page_size(const LiveBatchState& batch, const AttentionShape& shape);
void count(PlanSource source, PlanCounts& counts);

}  // namespace trunkline
