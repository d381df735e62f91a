#include "plan/plan_checks.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.hpp"
#include "plan/policies/policy_table.hpp"

namespace trunkline {
namespace {

// Far above any model's. It keeps the byte counts of PlanStatistics in 64 bits for up to 2^40 tokens.
constexpr std::int32_t kMaxQueryHeads = 4096;

void check_option_number(const char* name, int value, int last) {
  if (value < 0 || value > last) {
    fail(ErrorCode::kInvalidArgument, "options.", name, " is number ", value, "; known are 0 to ", last);
  }
}

struct Limit {
  const char* name = nullptr;
  std::size_t needed = 0;
  std::int32_t given = 0;
};

/// Without a name where none is exceeded.
Limit first_exceeded(const Plan& plan) {
  const Limit limits[] = {{"queries", plan.queries.size(), plan.capacity.queries},
                          {"items", plan.items.size(), plan.capacity.items},
                          {"spans", plan.spans.size(), plan.capacity.spans},
                          {"partials", static_cast<std::size_t>(plan.partials), plan.capacity.partials}};
  for (const Limit& limit : limits) {
    if (limit.given > 0 && limit.needed > static_cast<std::size_t>(limit.given)) return limit;
  }
  return {};
}

}  // namespace

void check_shape(const AttentionShape& shape) {
  if (shape.kv_heads < 1 || shape.q_heads < 1) {
    fail(ErrorCode::kInvalidArgument, "shape has ", shape.q_heads, " query heads and ", shape.kv_heads,
         " KV heads; both must be >= 1");
  }
  if (shape.q_heads > kMaxQueryHeads) {
    fail(ErrorCode::kUnsupported, "shape.q_heads is ", shape.q_heads, "; supported: up to ", kMaxQueryHeads);
  }
  if (shape.q_heads % shape.kv_heads != 0 || shape.group_size() > 16) {
    fail(ErrorCode::kUnsupported, "shape has ", shape.q_heads, " query heads for ", shape.kv_heads,
         " KV heads; q_heads must be a multiple of kv_heads, from 1 to 16 times as many");
  }
  if (shape.head_dim != 64 && shape.head_dim != 128 && shape.head_dim != 256) {
    fail(ErrorCode::kUnsupported, "shape.head_dim is ", shape.head_dim, "; supported are 64, 128 and 256");
  }
  if (shape.page_size < 1) {
    fail(ErrorCode::kInvalidArgument, "shape.page_size is ", shape.page_size, "; it must be >= 1");
  }
  if (shape.dtype != DType::kF32 && shape.dtype != DType::kF16 && shape.dtype != DType::kBF16) {
    fail(ErrorCode::kUnsupported, "shape.dtype is number ", static_cast<int>(shape.dtype),
         "; supported: f32, f16, bf16");
  }
}

void check_options(const PlanOptions& options) {
  policy_row(options.policy);
  check_option_number("split", static_cast<int>(options.split), static_cast<int>(KvSplit::kNone));
  const PolicyOptions& policies = options.policies;
  check_option_number("policies.profit_cost", static_cast<int>(policies.profit_cost),
                      static_cast<int>(ProfitCost::kCompute));
  check_option_number("policies.trunk_hoist", static_cast<int>(policies.trunk_hoist),
                      static_cast<int>(TrunkHoist::kNever));
  if (policies.node_chunk < 0) {
    fail(ErrorCode::kInvalidArgument, "options.policies.node_chunk is ", policies.node_chunk,
         "; chunks have at least 1 token, and 0 is whole nodes");
  }
  if (policies.flatten_block < 1) {
    fail(ErrorCode::kInvalidArgument, "options.policies.flatten_block is ", policies.flatten_block,
         "; blocks have at least 1 token");
  }
  if (policies.trunk_rows < 0) {
    fail(ErrorCode::kInvalidArgument, "options.policies.trunk_rows is ", policies.trunk_rows,
         "; tiles have at least 1 row, and 0 is by the cost model");
  }
  if (policies.invariant_chunk < 1) {
    fail(ErrorCode::kInvalidArgument, "options.policies.invariant_chunk is ", policies.invariant_chunk,
         "; chunks have at least 1 token");
  }
  const std::pair<const char*, std::int32_t> limits[] = {{"queries", options.capacity.queries},
                                                         {"items", options.capacity.items},
                                                         {"spans", options.capacity.spans},
                                                         {"partials", options.capacity.partials}};
  for (const auto& [name, limit] : limits) {
    if (limit < 0) {
      fail(ErrorCode::kInvalidArgument, "options.capacity.", name, " is ", limit,
           "; limits are >= 0, and 0 is no limit");
    }
  }
}

bool exceeds_capacity(const Plan& plan) {
  return first_exceeded(plan).name != nullptr;
}

std::string excess_of(const Plan& plan) {
  const Limit limit = first_exceeded(plan);
  return concat(limit.needed, " ", limit.name, ", but capacity.", limit.name, " is ", limit.given);
}

}  // namespace trunkline
