// The compiled Hopper forward kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/cuda/kernels/kernel_families.hpp"
#include "exec/cuda/kernels/sm90/forward/config.hpp"

namespace trunkline::cuda::sm90 {

/// Returns, for each element type and head dimension in config.hpp's list, the kernel without and the kernel with
/// merging of partials.
std::span<ForwardVariant> variants();

cudaError_t enqueue(CompiledKernel& kernel, const ForwardArgs& args, const KernelShape& shape, std::int32_t sms,
                    cudaStream_t stream);

/// Returns sizeof(TaskPrologue).
std::size_t prologue_bytes();
/// Writes the TaskPrologue of every item, and its members of the task header.
cudaError_t launch_write_prologues(const StepArgs& args, std::int32_t group_size, std::size_t max_items,
                                   cudaStream_t stream);

}  // namespace trunkline::cuda::sm90
