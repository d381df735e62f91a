// Kernels that run between timed replays.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace trunkline::cli {

/// Keeps the device busy for so long, so that the host has enqueued what comes next before it begins.
cudaError_t launch_spin(double us, cudaStream_t stream);

/// to[i] = from[i] + offset, but what is no id below `limit` stays as it is.
cudaError_t launch_shift_ids(const std::int32_t* from, std::int32_t* to, std::size_t count, std::int32_t limit,
                             std::int32_t offset, cudaStream_t stream);

}  // namespace trunkline::cli
