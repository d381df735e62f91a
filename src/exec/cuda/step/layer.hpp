// Checks one layer's tensors and converts them to kernel arguments.
#pragma once

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "trunkline/attention.hpp"

namespace trunkline::cuda {

/// Alignment of pointers in bytes, and of strides in elements: kernels read and write tensors 16 bytes at a time.
inline constexpr std::size_t kTensorAlignment = 16;
inline constexpr std::int64_t kStrideMultiple = 8;

/// \param args as check_args returned them
/// \throws Error(kInvalidArgument) naming the member that is misaligned, Error(kUnsupported) if O is neither f32 nor of
/// the shape's type
LayerArgs layer_args(const AttentionArgs& args, const AttentionShape& shape);

}  // namespace trunkline::cuda
