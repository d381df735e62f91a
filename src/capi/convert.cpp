#include "capi/convert.hpp"

#include <cstddef>
#include <memory>
#include <span>

#include "base/check.hpp"
#include "capi/structs.hpp"
#include "plan/policies/policy_table.hpp"
#include "trunkline/experimental.h"
#include "trunkline/experimental.hpp"

namespace trunkline::capi {
namespace {

// The numbers of the C interface are fixed. These say what they have in common with the enumerators of today. Policies
// have the same numbers in both, which scripts/check_policies.py compares name by name.
static_assert(static_cast<int>(KvSplit::kOwn) == TRUNKLINE_SPLIT_OWN);
static_assert(static_cast<int>(KvSplit::kBalance) == TRUNKLINE_SPLIT_BALANCE);
static_assert(static_cast<int>(experimental::kSplitMean) == TRUNKLINE_SPLIT_MEAN);
static_assert(static_cast<int>(experimental::kSplitLong) == TRUNKLINE_SPLIT_LONG);
static_assert(static_cast<int>(KvSplit::kNone) == TRUNKLINE_SPLIT_NONE);
static_assert(static_cast<int>(experimental::ProfitCost::kCompute) == TRUNKLINE_PROFIT_COMPUTE);
static_assert(static_cast<int>(experimental::TrunkHoist::kByCost) == TRUNKLINE_HOIST_BY_COST);
static_assert(static_cast<int>(experimental::TrunkHoist::kNever) == TRUNKLINE_HOIST_NEVER);
static_assert(static_cast<int>(PlanSource::kReused) == TRUNKLINE_PLAN_REUSED);
static_assert(static_cast<int>(PlanSource::kMembership) == TRUNKLINE_PLAN_MEMBERSHIP);
static_assert(static_cast<int>(PlanSource::kTruncated) == TRUNKLINE_PLAN_TRUNCATED);
static_assert(static_cast<int>(PlanSource::kGrowth) == TRUNKLINE_PLAN_GROWTH);
static_assert(static_cast<int>(PlanSource::kEdited) == TRUNKLINE_PLAN_EDITED);
static_assert(static_cast<int>(PlanSource::kFlat) == TRUNKLINE_PLAN_FLAT);
static_assert(static_cast<int>(CudaKernels::kPortable) == TRUNKLINE_KERNELS_PORTABLE);
static_assert(static_cast<int>(CudaKernels::kHopper) == TRUNKLINE_KERNELS_HOPPER);

template <class Enum>
Enum choice(std::int32_t value, std::int32_t last, const char* name) {
  check_choice(value, 0, last, name);
  return static_cast<Enum>(value);
}

}  // namespace

void check_choice(std::int32_t value, std::int32_t first, std::int32_t last, const char* name) {
  if (value >= first && value <= last) return;
  fail(ErrorCode::kInvalidArgument, name, " is ", value, "; known: ", first, " to ", last);
}

DType float_type(trunkline_dtype dtype, const char* name) {
  switch (dtype) {
    case TRUNKLINE_F32: return DType::kF32;
    case TRUNKLINE_F16: return DType::kF16;
    case TRUNKLINE_BF16: return DType::kBF16;
    case TRUNKLINE_F8E4M3: return DType::kF8E4M3;
    case TRUNKLINE_F8E5M2: return DType::kF8E5M2;
    default:
      fail(ErrorCode::kInvalidArgument, name, " is ", dtype,
           "; known: TRUNKLINE_F32 (1), TRUNKLINE_F16 (2), TRUNKLINE_BF16 (3), TRUNKLINE_F8E4M3 (6), TRUNKLINE_F8E5M2 "
           "(7)");
  }
}

trunkline_dtype number_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return TRUNKLINE_F32;
    case DType::kF16: return TRUNKLINE_F16;
    case DType::kBF16: return TRUNKLINE_BF16;
    case DType::kF8E4M3: return TRUNKLINE_F8E4M3;
    case DType::kF8E5M2: break;
  }
  return TRUNKLINE_F8E5M2;
}

Device device_kind(trunkline_device device, const char* name) {
  if (device == 0 || device == TRUNKLINE_CPU) return Device::kCpu;
  if (device == TRUNKLINE_CUDA) return Device::kCuda;
  fail(ErrorCode::kInvalidArgument, name, " is ", device, "; supported: TRUNKLINE_CPU (1), TRUNKLINE_CUDA (2)");
}

trunkline_device number_of(Device device) {
  return device == Device::kCuda ? TRUNKLINE_CUDA : TRUNKLINE_CPU;
}

trunkline_policy last_policy() {
  return static_cast<trunkline_policy>(policy_table().size());
}

Policy policy_of(trunkline_policy policy, const char* name) {
  return choice<Policy>(policy, last_policy(), name);
}

trunkline_policy number_of(Policy policy) {
  return static_cast<trunkline_policy>(policy);
}

trunkline_plan_source number_of(PlanSource source) {
  return static_cast<trunkline_plan_source>(source);
}

LseBase lse_base(std::int32_t base, const char* name) {
  check_choice(base, TRUNKLINE_LSE_NATURAL, TRUNKLINE_LSE_TWO, name);
  return base == TRUNKLINE_LSE_TWO ? LseBase::kTwo : LseBase::kNatural;
}

CudaKernels kernels_of(trunkline_kernels kernels, const char* name) {
  return choice<CudaKernels>(kernels, TRUNKLINE_KERNELS_HOPPER, name);
}

MergeMode merge_mode(std::int32_t merge, MergeMode by_default, const char* name) {
  check_choice(merge, TRUNKLINE_MERGE_DEFAULT, TRUNKLINE_MERGE_SEPARATE, name);
  if (merge == TRUNKLINE_MERGE_DEFAULT) return by_default;
  return merge == TRUNKLINE_MERGE_FUSED ? MergeMode::kFused : MergeMode::kSeparate;
}

bool truth(std::int32_t value, const char* name) {
  check_choice(value, 0, 1, name);
  return value == 1;
}

std::int64_t null_page_of(std::int32_t has_null_page, std::int64_t null_page, const char* owner) {
  // A name takes memory, which no step does.
  if (has_null_page != 0 && has_null_page != 1) truth(has_null_page, concat(owner, ".has_null_page").c_str());
  if (has_null_page == 0) return -1;
  if (null_page < 0) {
    fail(ErrorCode::kOutOfRange, owner, ".null_page is ", null_page, "; it must be >= 0, or has_null_page 0");
  }
  return null_page;
}

AttentionShape shape_of(const trunkline_shape* given) {
  const trunkline_shape shape = read_struct(given, "shape");
  const DType q_dtype = float_type(shape.q_dtype, "shape.q_dtype");
  return {.q_heads = shape.q_heads,
          .kv_heads = shape.kv_heads,
          .head_dim_qk = shape.head_dim_qk,
          .head_dim_v = shape.head_dim_v == 0 ? shape.head_dim_qk : shape.head_dim_v,
          .page_size = shape.page_size,
          .q_dtype = q_dtype,
          .kv_dtype = shape.kv_dtype == 0 ? q_dtype : float_type(shape.kv_dtype, "shape.kv_dtype"),
          .device = device_kind(shape.device, "shape.device")};
}

namespace {

std::shared_ptr<const experimental::PolicyStudy> policy_study(const trunkline_policy_study* given) {
  using experimental::ProfitCost;
  using experimental::TrunkHoist;
  const trunkline_policy_study from = read_struct(given, "options.study");
  check_reserved(from.reserved, "options.study.reserved");
  experimental::PolicyStudy study;
  study.profit_cost = choice<ProfitCost>(from.profit_cost, TRUNKLINE_PROFIT_COMPUTE, "options.study.profit_cost");
  study.greedy_phases = !truth(from.greedy_single_phase, "options.study.greedy_single_phase");
  study.trunk_hoist = choice<TrunkHoist>(from.trunk_hoist, TRUNKLINE_HOIST_NEVER, "options.study.trunk_hoist");
  return std::make_shared<const experimental::PolicyStudy>(study);
}

}  // namespace

PlanOptions plan_options(const trunkline_plan_options* given) {
  const trunkline_plan_options from = read_options(given, "options");
  PlanOptions options;
  options.policy = policy_of(from.policy, "options.policy");
  options.split = choice<KvSplit>(from.split, TRUNKLINE_SPLIT_LONG, "options.split");
  options.capacity = {from.capacity_queries, from.capacity_items, from.capacity_spans, from.capacity_partials};
  options.tile = {from.tile_m, from.tile_n};
  options.policies.node_chunk = from.node_chunk;
  if (from.flatten_block != 0) options.policies.flatten_block = from.flatten_block;
  options.policies.trunk_rows = from.trunk_rows;
  if (from.invariant_chunk != 0) options.policies.invariant_chunk = from.invariant_chunk;
  if (from.study != nullptr) options.policies.study = policy_study(from.study);
  return options;
}

LivePlanOptions live_plan_options(const trunkline_live_plan_options* given) {
  const trunkline_live_plan_options from = read_options(given, "options");
  LivePlanOptions options;
  options.plan = plan_options(from.plan);
  if (from.growth_limit != 0) options.growth_limit = from.growth_limit;
  options.edit_share = from.edit_share;
  return options;
}

PageIds page_ids(const void* ids, trunkline_dtype dtype, std::int64_t count, const char* name) {
  if (count < 0) fail(ErrorCode::kInvalidArgument, name, " has ", count, " entries; it must have >= 0");
  if (count > 0) need(ids, name);
  const auto size = static_cast<std::size_t>(count);
  if (dtype == TRUNKLINE_I32) return std::span(static_cast<const std::int32_t*>(ids), size);
  if (dtype == TRUNKLINE_I64) return std::span(static_cast<const std::int64_t*>(ids), size);
  fail(ErrorCode::kInvalidArgument, name, " have type ", dtype, "; supported: TRUNKLINE_I32 (4), TRUNKLINE_I64 (5)");
}

}  // namespace trunkline::capi
