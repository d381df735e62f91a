#include "trunkline/types.hpp"

namespace trunkline {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
    case DType::kF8E4M3: return "f8_e4m3";
    case DType::kF8E5M2: return "f8_e5m2";
  }
  return "unknown";
}

const char* name_of(Device device) {
  return device == Device::kCuda ? "cuda" : "cpu";
}

}  // namespace trunkline
