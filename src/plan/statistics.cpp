#include "plan/statistics.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace trunkline {
namespace {

/// The queries of a draft tree attend to the past, their ancestors and themselves.
std::int64_t tree_pairs(const Forest& forest, const ForestRequest& request) {
  if (request.kv_len == 0) return 0;
  std::int64_t pairs = std::int64_t{request.queries} * (request.kv_len - request.queries);
  for (std::int32_t query = 0; query < request.queries; ++query) {
    for (std::int32_t i = query; i >= 0; i = forest.query_parent(request, i)) ++pairs;
  }
  return pairs;
}

/// (query, visible token) pairs.
std::int64_t visible_pairs(const Forest& forest) {
  std::int64_t pairs = 0;
  for (const ForestRequest& request : forest.requests) {
    if (request.tree) {
      pairs += tree_pairs(forest, request);
      continue;
    }
    for (std::int32_t from_end = 0; from_end < request.queries; ++from_end) {
      pairs += std::max(request.kv_len - from_end, 0);
    }
  }
  return pairs;
}

}  // namespace

PlanStatistics make_statistics(const Forest& forest, const Plan& plan, const Packs& packs, const CostModel& costs,
                               const MachineProfile& profile, Nanoseconds predicted) {
  const AttentionShape& shape = plan.shape;
  const std::int64_t token_bytes = shape.kv_bytes_per_token() * shape.kv_heads;
  const std::int64_t query_elements = std::int64_t{shape.q_heads} * (shape.head_dim_qk + shape.head_dim_v);

  if (packs.total_tokens() > std::numeric_limits<std::int64_t>::max() / token_bytes) {
    fail(ErrorCode::kUnsupported, "the plan reads ", packs.total_tokens(), " tokens of ", token_bytes,
         " bytes; supported are up to 2^63 - 1 bytes");
  }

  PlanStatistics result;
  result.kv_tokens_total = forest.total_tokens;
  result.kv_tokens_distinct = packs.order().needed_tokens();
  result.kv_tokens_read = packs.total_tokens();
  result.kv_tokens_grouped = packs.grouped_tokens();
  result.kv_bytes_distinct = result.kv_tokens_distinct * token_bytes;
  result.kv_bytes_read = result.kv_tokens_read * token_bytes;
  result.kv_bytes_reread = result.kv_bytes_read - result.kv_bytes_distinct;
  result.qo_bytes = static_cast<std::int64_t>(plan.queries.size()) * query_elements *
                    static_cast<std::int64_t>(size_of(shape.q_dtype));
  result.partials = plan.partials;
  // fp32 O and LSE, written once and read once.
  result.partial_bytes = std::int64_t{2} * 4 * plan.partials * shape.q_heads * (shape.head_dim_v + 1);

  const double pair_flops = 2.0 * (shape.head_dim_qk + shape.head_dim_v);  // of one query head
  result.flops = pair_flops * shape.q_heads * static_cast<double>(visible_pairs(forest));
  double padded_pairs = 0;
  for (const Pack& pack : packs.packs()) {
    padded_pairs += static_cast<double>(pack.matrix_tokens) * costs.rows(pack);
  }
  result.flops_padded = pair_flops * shape.kv_heads * padded_pairs;

  result.predicted_us = static_cast<double>(predicted) / 1e3;
  const double memory_us = static_cast<double>(result.kv_bytes_distinct + result.qo_bytes) / profile.read_bytes_per_us;
  result.bound_us = std::max(memory_us, result.flops / profile.flops_per_us) + profile.launch_us;
  return result;
}

}  // namespace trunkline
