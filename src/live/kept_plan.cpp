#include "live/kept_plan.hpp"

#include <algorithm>
#include <cstddef>

#include "base/check.hpp"

namespace trunkline {
namespace {

/// The length that a request needs for a span. Where its drafts begin matters to the open-ended one alone: it follows
/// on all that are read by position.
std::int64_t needed_length(const KvSpan& span) {
  if ((span.flags & kSpanBeginFromEnd) != 0) return 0;
  return span.open_ended() ? std::int64_t{span.begin} - span.end : span.end;
}

}  // namespace

bool has_tokens_of(const LiveBatchState& batch, const Plan& plan) {
  return std::all_of(plan.spans.begin(), plan.spans.end(), [&](const KvSpan& span) {
    const std::int32_t length = batch.lengths[static_cast<std::size_t>(span.slot)];
    return needed_length(span) <= length;
  });
}

bool is_valid(const LiveBatchState& batch, const Plan& plan, PlanOrigin& origin) {
  if (origin.sharing != batch.sharing) return false;
  if (origin.truncations == batch.truncations) return true;
  if (!has_tokens_of(batch, plan)) return false;
  origin.truncations = batch.truncations;
  return true;
}

// By the partials of a request's first query, one a chunk: a remainder of drafts alone is a chunk, too, one of no token
// is not, but of an empty request.
bool cuts_hold(const LiveBatchState& batch, const Plan& plan) {
  if (plan.invariant_chunk == 0) return true;
  std::size_t merge = 0;
  for (std::size_t i = 0; i < plan.queries.size(); ++i) {
    std::int32_t planned = 1;
    if (merge < plan.merge_queries.size() && plan.merge_queries[merge] == static_cast<std::int32_t>(i)) {
      planned = plan.merge_begin[merge + 1] - plan.merge_begin[merge];
      ++merge;
    }
    const Query& query = plan.queries[i];
    if (query.token > 0) continue;
    const auto slot = static_cast<std::size_t>(query.slot);
    const std::int32_t last = batch.lengths[slot] - std::max(batch.drafts[slot], 1);
    if (planned != std::max(last, 0) / plan.invariant_chunk + 1) return false;
  }
  return true;
}

void check_live_options(const LivePlanOptions& options) {
  if (!(options.growth_limit >= 1)) {
    fail(ErrorCode::kInvalidArgument, "options.growth_limit is ", options.growth_limit, "; it must be >= 1");
  }
  if (!(options.edit_share >= 0)) {
    fail(ErrorCode::kInvalidArgument, "options.edit_share is ", options.edit_share, "; it must be >= 0");
  }
}

void check_page_size(const LiveBatchState& batch, const AttentionShape& shape) {
  if (batch.options.page_size != shape.page_size) {
    fail(ErrorCode::kInvalidArgument, "batch has page size ", batch.options.page_size, "; the planner's shape has ",
         shape.page_size);
  }
}

void count(PlanSource source, PlanCounts& counts) {
  ++counts.steps;
  switch (source) {
    case PlanSource::kReused: ++counts.reused; return;
    case PlanSource::kMembership: ++counts.membership; return;
    case PlanSource::kTruncated: ++counts.truncated; return;
    case PlanSource::kGrowth: ++counts.growth; return;
    case PlanSource::kEdited: ++counts.edited; return;
    case PlanSource::kFlat: ++counts.flat; return;
  }
}

const char* name_of(PlanSource source) {
  switch (source) {
    case PlanSource::kReused: return "reused";
    case PlanSource::kMembership: return "membership";
    case PlanSource::kTruncated: return "truncated";
    case PlanSource::kGrowth: return "growth";
    case PlanSource::kEdited: return "edited";
    case PlanSource::kFlat: return "flat";
  }
  return "unknown";
}

}  // namespace trunkline
