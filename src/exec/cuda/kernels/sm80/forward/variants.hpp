// The compiled portable forward kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "exec/cuda/kernels/kernel_families.hpp"
#include "exec/cuda/kernels/sm80/forward/config.hpp"

namespace trunkline::cuda::sm80 {

/// Returns two kernels for each combination in config.hpp's list: one with the usual ring, and one with the compact
/// ring.
std::span<ForwardVariant> variants();

cudaError_t enqueue(CompiledKernel& kernel, const ForwardArgs& args, const KernelShape& shape, std::int32_t sms,
                    cudaStream_t stream);

}  // namespace trunkline::cuda::sm80
