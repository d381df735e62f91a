// Enumerators, shapes and options of the C interface as those of the C++ one, and back. Errors name the field.
#pragma once

#include <cstdint>

#include "trunkline/attention.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/live.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/trunkline.h"

namespace trunkline::capi {

/// \throws Error unless value is in [first, last], naming `name`.
void check_choice(std::int32_t value, std::int32_t first, std::int32_t last, const char* name);

/// \throws Error unless it is the number of a floating-point type, naming `name`.
DType float_type(trunkline_dtype dtype, const char* name);
trunkline_dtype number_of(DType dtype);
/// 0 is the CPU.
Device device_kind(trunkline_device device, const char* name);
trunkline_device number_of(Device device);
/// The policy with the highest number.
trunkline_policy last_policy();
Policy policy_of(trunkline_policy policy, const char* name);
trunkline_policy number_of(Policy policy);
trunkline_plan_source number_of(PlanSource source);
LseBase lse_base(std::int32_t base, const char* name);
CudaKernels kernels_of(trunkline_kernels kernels, const char* name);
/// \param by_default what 0 is
MergeMode merge_mode(std::int32_t merge, MergeMode by_default, const char* name);

AttentionShape shape_of(const trunkline_shape* shape);
PlanOptions plan_options(const trunkline_plan_options* options);
LivePlanOptions live_plan_options(const trunkline_live_plan_options* options);

/// 1 or 0 of a field that is a truth.
bool truth(std::int32_t value, const char* name);

/// `null_page` of a struct, which `owner` names, or -1 for none.
std::int64_t null_page_of(std::int32_t has_null_page, std::int64_t null_page, const char* owner);

/// Page ids of some type.
PageIds page_ids(const void* ids, trunkline_dtype dtype, std::int64_t count, const char* name);

}  // namespace trunkline::capi
