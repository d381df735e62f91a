// The Hopper kernels: what is compiled, what it takes on the device, and the launches. As sm80/launch.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/cuda/compiled_kernel.hpp"

namespace trunkline::cuda::sm90 {

/// Whether a kernel for a type and head dimension is compiled; the list is config.hpp's.
bool supports(DType dtype, std::int32_t head_dim);

/// The tiles of the kernel for a head dimension, rising in m. Empty where nothing is compiled.
std::vector<TileShape> tiles(std::int32_t head_dim);

/// Of the kernel of all tiles, and of the one that merges partials, too. Empty where nothing is compiled or the device
/// cannot run it.
std::vector<KernelFacts> kernel_facts(DType dtype, std::int32_t head_dim);

cudaError_t launch_persistent(const ForwardArgs& args, DType dtype, std::int32_t head_dim, std::int32_t sms,
                              cudaStream_t stream);
cudaError_t launch_tile(const ForwardArgs& args, DType dtype, std::int32_t head_dim, TileShape tile, std::int32_t sms,
                        cudaStream_t stream);

/// sizeof(TaskOpening).
std::size_t opening_bytes();
/// Lays out every item's TaskOpening, and tells its header so.
cudaError_t launch_open_tasks(const StepArgs& args, std::int32_t group_size, std::size_t most, cudaStream_t stream);

}  // namespace trunkline::cuda::sm90
