#include "trunkline/types.hpp"

namespace trunkline {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
  }
  return "unknown";
}

const char* name_of(Device device) {
  return device == Device::kCuda ? "cuda" : "cpu";
}

}  // namespace trunkline
