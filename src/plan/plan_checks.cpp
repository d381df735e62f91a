#include "plan/plan_checks.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.hpp"
#include "plan/capacity_limits.hpp"
#include "plan/plan_sizes.hpp"
#include "plan/policies/policy_table.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

// Far above any model's. It keeps the byte counts of PlanStatistics in 64 bits for up to 2^40 tokens.
constexpr std::int32_t kMaxQueryHeads = 4096;
// Rows of the tallest tile that all families of kernels have, in which a query's rows of one KV head must fit.
constexpr std::int32_t kMaxGroupSize = 64;

std::string text_of(DType dtype) {
  return dtype <= DType::kF8E5M2 ? name_of(dtype) : concat("number ", static_cast<int>(dtype));
}

void check_option_number(const char* name, int value, int last) {
  if (value < 0 || value > last) {
    fail(ErrorCode::kInvalidArgument, "options.", name, " is number ", value, "; known are 0 to ", last);
  }
}

/// nullptr if none is exceeded.
const CapacityLimit* first_exceeded(const Plan& plan) {
  const PlanSizes sizes = sizes_of(plan);
  for (const CapacityLimit& each : kCapacityLimits) {
    const std::int32_t limit = plan.capacity.*each.limit;
    if (limit > 0 && sizes.*each.size > static_cast<std::size_t>(limit)) return &each;
  }
  return nullptr;
}

}  // namespace

std::optional<ShapeFault> find_shape_fault(const AttentionShape& shape) {
  const auto fault = [](ErrorCode code, std::string reason) { return ShapeFault{code, std::move(reason)}; };
  if (shape.kv_heads < 1 || shape.q_heads < 1) {
    return fault(ErrorCode::kInvalidArgument, concat("heads are ", shape.q_heads, "/", shape.kv_heads,
                                                     " (query heads / KV heads); both must be >= 1"));
  }
  if (shape.page_size < 1) {
    return fault(ErrorCode::kInvalidArgument, concat("page_size is ", shape.page_size, "; it must be >= 1"));
  }
  const auto unsupported = [](auto... parts) { return ShapeFault{ErrorCode::kUnsupported, concat(parts...)}; };
  if (shape.q_heads > kMaxQueryHeads) {
    return unsupported("q_heads is ", shape.q_heads, "; supported: up to ", kMaxQueryHeads);
  }
  if (shape.q_heads % shape.kv_heads != 0) {
    return unsupported("heads are ", shape.q_heads, "/", shape.kv_heads,
                       "; query heads must be a multiple of KV heads");
  }
  if (shape.group_size() > kMaxGroupSize) {
    return unsupported("heads are ", shape.q_heads, "/", shape.kv_heads, ", ", shape.group_size(),
                       " query heads for each KV head; supported: 1 to ", kMaxGroupSize);
  }
  if (shape.head_dim_qk != shape.head_dim_v) {
    return unsupported("head_dim_qk is ", shape.head_dim_qk, " and head_dim_v is ", shape.head_dim_v,
                       "; supported: the same for both");
  }
  if (shape.head_dim_qk != 64 && shape.head_dim_qk != 128 && shape.head_dim_qk != 256) {
    return unsupported("head_dim_qk and head_dim_v are ", shape.head_dim_qk, "; supported: 64, 128, 256");
  }
  const auto is_8_bits = [](DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; };
  const auto is_wider = [](DType dtype) {
    return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  };
  if (!is_wider(shape.q_dtype)) {
    return unsupported("q_dtype is ", text_of(shape.q_dtype), "; supported: f32, f16, bf16");
  }
  if (!is_wider(shape.kv_dtype) && !is_8_bits(shape.kv_dtype)) {
    return unsupported("kv_dtype is ", text_of(shape.kv_dtype), "; supported: f32, f16, bf16, f8_e4m3, f8_e5m2");
  }
  if (shape.q_dtype != shape.kv_dtype && !is_8_bits(shape.kv_dtype)) {
    return unsupported("q_dtype is ", name_of(shape.q_dtype), " and kv_dtype is ", name_of(shape.kv_dtype),
                       "; supported: the same for both, or a kv_dtype of f8_e4m3 or f8_e5m2");
  }
  return std::nullopt;
}

void check_shape(const AttentionShape& shape) {
  if (const auto fault = find_shape_fault(shape)) throw Error(fault->code, "shape: " + fault->reason);
}

void check_options(const PlanOptions& options) {
  check_policy(options.policy);
  check_option_number("split", static_cast<int>(options.split), static_cast<int>(experimental::kSplitLong));
  const PolicyOptions& policies = options.policies;
  if (policies.study != nullptr) {
    check_option_number("policies.study.profit_cost", static_cast<int>(policies.study->profit_cost),
                        static_cast<int>(experimental::ProfitCost::kCompute));
    check_option_number("policies.study.trunk_hoist", static_cast<int>(policies.study->trunk_hoist),
                        static_cast<int>(experimental::TrunkHoist::kNever));
  }
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
  for (const CapacityLimit& each : kCapacityLimits) {
    const std::int32_t limit = options.capacity.*each.limit;
    if (limit < 0) {
      fail(ErrorCode::kInvalidArgument, "options.capacity.", each.name, " is ", limit,
           "; limits are >= 0, and 0 is no limit");
    }
  }
}

bool exceeds_capacity(const Plan& plan) {
  return first_exceeded(plan) != nullptr;
}

std::string excess_of(const Plan& plan) {
  const CapacityLimit* const exceeded = first_exceeded(plan);
  if (exceeded == nullptr) return {};
  return concat(sizes_of(plan).*exceeded->size, " ", exceeded->name, ", but capacity.", exceeded->name, " is ",
                plan.capacity.*exceeded->limit);
}

}  // namespace trunkline
