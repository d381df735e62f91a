// The portable forward kernels: what is compiled, what it takes on the device, and the launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "exec/cuda/compiled_kernel.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cuda::sm80 {

/// Whether kernels for a type and head dimension are compiled; the list is config.hpp's.
bool supports(DType dtype, std::int32_t head_dim);

/// The tiles of the kernels for a head dimension, rising in m; those of the persistent kernel are the same. Empty where
/// nothing is compiled.
std::vector<TileShape> tiles(std::int32_t head_dim);

/// Facts of the persistent kernel and of that of each tile, in the order of tiles(). Empty where nothing is compiled or
/// the device cannot be used.
std::vector<KernelFacts> kernel_facts(DType dtype, std::int32_t head_dim);

/// Enqueues all items of the uploaded plan: one launch, whose CTAs take (item, KV head) tasks in the plan's order.
/// `sms`: the device's multiprocessors. args.next_task and args.done are 0 before and after. Capturable.
/// \return cudaErrorNotSupported where nothing is compiled, else what the launch returned.
cudaError_t launch_persistent(const ForwardArgs& args, DType dtype, std::int32_t head_dim, std::int32_t sms,
                              cudaStream_t stream);

/// Enqueues the items of one tile only: that of args.tile_m and args.tile_n, which must be `tile`. Launches that may
/// overlap in time need a next_task and done of their own.
cudaError_t launch_tile(const ForwardArgs& args, DType dtype, std::int32_t head_dim, TileShape tile, std::int32_t sms,
                        cudaStream_t stream);

}  // namespace trunkline::cuda::sm80
