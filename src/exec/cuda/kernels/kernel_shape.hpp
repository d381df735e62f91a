// What tells compiled forward kernels of a family apart.
#pragma once

#include <cstdint>

#include "trunkline/types.hpp"

namespace trunkline::cuda {

/// The element types and the head dimension of a launch.
struct KernelShape {
  DType q_dtype;
  DType kv_dtype;
  std::int32_t head_dim;
};

constexpr KernelShape kernel_shape_of(const AttentionShape& shape) {
  return {shape.q_dtype, shape.kv_dtype, shape.head_dim_qk};
}

}  // namespace trunkline::cuda
