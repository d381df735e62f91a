// Merges partials to outputs by online softmax, in the order of the plan's lists: the same bits in every run, and the
// same as the forward kernel's merge (common/merge_row.cuh).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cuda {

/// Merges a plan's partials, after the forward kernel on the same stream.
/// \param dtype of O if it is not fp32
/// \param early programmatic dependent launch, if compiled for compute capability 9.0 or newer: blocks start on SMs
/// that the forward kernel has left, and wait there for its end. Must be false if several kernels precede this one
/// \param max_merges maximum of any plan uploaded to this workspace: a captured launch serves all of them
/// \return cudaErrorNotSupported if no kernel is compiled, else the launch's error
cudaError_t launch_merge(const MergeArgs& args, DType dtype, std::int32_t head_dim, std::size_t max_merges,
                         std::int32_t sms, bool early, cudaStream_t stream);

/// Merges a caller's states. \return as launch_merge
cudaError_t launch_merge_states(const MergeStatesArgs& args, std::int32_t head_dim, std::int32_t sms,
                                cudaStream_t stream);

}  // namespace trunkline::cuda
