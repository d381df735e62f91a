// Partials to outputs by online softmax in a kernel of its own, in the order of the plan's lists: the same bits in
// every run, and as the forward kernel's last arriver writes (common/merge_row.cuh).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cuda {

/// After the forward kernel on the same stream.
/// \param dtype of O where it is not fp32
/// \param early whether its blocks may come to SMs that the forward kernel has left, and wait there for the others
/// (programmatic dependent launch), where it was compiled for compute capability 9.0 or newer. Not where several
/// kernels precede it. \param most_merges that any plan uploaded to this workspace can have: a captured launch serves
/// all. \return cudaErrorNotSupported where nothing is compiled, else what the launch returned.
cudaError_t launch_merge(const MergeArgs& args, DType dtype, std::int32_t head_dim, std::size_t most_merges,
                         std::int32_t sms, bool early, cudaStream_t stream);

/// Merges states that are not a plan's. \return as launch_merge.
cudaError_t launch_merge_states(const MergeStatesArgs& args, std::int32_t head_dim, std::int32_t sms,
                                cudaStream_t stream);

}  // namespace trunkline::cuda
