// One layer's tensors, checked and in the form that kernels take.
#pragma once

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "trunkline/attention.hpp"

namespace trunkline::cuda {

/// Pointers are multiples of so many bytes, strides of so many elements: tensors are read and written 16 bytes at a
/// time.
inline constexpr std::size_t kTensorAlignment = 16;
inline constexpr std::int64_t kStrideMultiple = 8;

/// \param args as check_args returned them
/// \throws Error(kInvalidArgument) naming the member that is misaligned, Error(kUnsupported) on another type of O than
/// f32 and the shape's.
LayerArgs layer_args(const AttentionArgs& args, const AttentionShape& shape);

}  // namespace trunkline::cuda
