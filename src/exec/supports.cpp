#include "base/check.hpp"
#include "exec/cuda/support.hpp"
#include "exec/features.hpp"
#include "plan/plan_checks.hpp"
#include "trunkline/attention.hpp"

namespace trunkline {

Support supports(const AttentionShape& shape) {
  if (const auto fault = find_shape_fault(shape)) return {false, fault->reason};
  if (shape.device != Device::kCpu && shape.device != Device::kCuda) {
    return {false, concat("device is number ", static_cast<int>(shape.device), "; supported: cpu, cuda")};
  }
  if (size_of(shape.kv_dtype) == 1 && !features_of(shape.device).fp8_kv) {
    return {false, concat("kv_dtype is ", name_of(shape.kv_dtype), "; supported on ", name_of(shape.device),
                          ": the q_dtype, which is ", name_of(shape.q_dtype))};
  }
  if (shape.device == Device::kCuda) return cuda::supports_shape(shape);
  return {true, {}};
}

}  // namespace trunkline
