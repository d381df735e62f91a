#include "base/check.hpp"
#include "exec/cuda/support.hpp"
#include "plan/plan_checks.hpp"
#include "trunkline/attention.hpp"

namespace trunkline {

Support supports(const AttentionShape& shape) {
  if (const auto fault = find_shape_fault(shape)) return {false, fault->reason};
  if (shape.device == Device::kCuda) return cuda::supports_shape(shape);
  if (shape.device == Device::kCpu) return {true, {}};
  return {false, concat("device is number ", static_cast<int>(shape.device), "; supported: cpu, cuda")};
}

}  // namespace trunkline
