// Launching the kernel of a single query.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/sm90/single_query/args.hpp"
#include "exec/cuda/kernels/sm90/single_query/config.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cuda::single_query {

/// How the SMs are dealt to KV heads.
struct Division {
  std::int32_t blocks = 0;    ///< CTAs of a cluster; 0: the kernel does not run the shape here
  std::int32_t clusters = 0;  ///< of a KV head
};

/// On the present device, of `sms` multiprocessors: the largest clusters of which each KV head has one at the same
/// time, as several of a head merge through memory, and then as many of these as take half of the SMs. An H200, whose
/// groups of SMs are of 14 to 18, holds 15 clusters of 8 CTAs, 31 of 4, 66 of 2.
Division divide(const AttentionShape& shape, std::int32_t sms);

/// Device memory beside a plan's, a multiple of 16.
std::size_t scratch_bytes(const AttentionShape& shape, Division division);
/// The same, at its begin. \param arrived [kCounters], 0
Scratch scratch_at(std::byte* scratch, const AttentionShape& shape, Division division, std::int32_t* arrived);

/// \param division of the shape
cudaError_t launch(const SingleQueryArgs& args, DType dtype, Division division, cudaStream_t stream);

}  // namespace trunkline::cuda::single_query
