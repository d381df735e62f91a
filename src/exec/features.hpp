// The features of AttentionArgs and AttentionShape that the kernels of each device have: one row a device.
#pragma once

#include "trunkline/types.hpp"

namespace trunkline {

struct Features {
  bool fp8_kv;  ///< K and V of 8 bits, with Q of 16 or 32
  bool scales;  ///< of Q, K and V
  bool windows;
  bool soft_cap;
  bool sinks;
};

inline constexpr Features kCpuFeatures = {
    .fp8_kv = true, .scales = true, .windows = true, .soft_cap = true, .sinks = true};
inline constexpr Features kCudaFeatures = {
    .fp8_kv = true, .scales = true, .windows = false, .soft_cap = true, .sinks = true};

constexpr const Features& features_of(Device device) {
  return device == Device::kCuda ? kCudaFeatures : kCpuFeatures;
}

}  // namespace trunkline
