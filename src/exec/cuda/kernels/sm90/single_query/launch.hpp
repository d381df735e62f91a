// Launch of the single-query kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/sm90/single_query/args.hpp"
#include "exec/cuda/kernels/sm90/single_query/config.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cuda::single_query {

/// The grid of the single-query kernel: the distribution of SMs over KV heads.
struct Division {
  std::int32_t blocks = 0;    ///< CTAs of a cluster; 0: the kernel does not run the shape here
  std::int32_t clusters = 0;  ///< clusters of a KV head
};

/// Returns the grid on the present device, of `sms` multiprocessors: the largest clusters of which the device holds one
/// for each KV head at once, as several clusters of a head merge through memory, and then as many of them as take half
/// of the SMs. An H200, whose groups of SMs have 14 to 18 SMs, holds 15 clusters of 8 CTAs, 31 of 4, 66 of 2.
Division divide(const AttentionShape& shape, std::int32_t sms);

/// Returns the bytes of Scratch in device memory, a multiple of 16.
std::size_t scratch_bytes(const AttentionShape& shape, Division division);
/// Lays Scratch out in such memory. \param arrived [kCounters], 0
Scratch scratch_at(std::byte* scratch, const AttentionShape& shape, Division division, std::int32_t* arrived);

/// Launches the kernel. \param division divide() of the shape
cudaError_t launch(const SingleQueryArgs& args, DType dtype, Division division, cudaStream_t stream);

}  // namespace trunkline::cuda::single_query
