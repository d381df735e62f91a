// Kernels that only read, for measuring memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace trunkline::cli {

/// Bytes that all CTAs of a streaming read take in one round. Buffers are multiples of it, so that no CTA waits for
/// another.
std::size_t stream_round_bytes(std::int32_t sms);

/// All SMs together read `bytes` bytes at `data` so many times. L1 is passed by.
/// \param sink 4 bytes that are written only if the data says so
cudaError_t launch_stream_read(const void* data, std::size_t bytes, int passes, std::int32_t sms, void* sink,
                               cudaStream_t stream);

/// One CTA on every SM reads runs of `bytes` bytes at places of a buffer, each of which is known only when all of the
/// run before is there. \param bytes a power of two from 16 on, at most buffer_bytes
cudaError_t launch_chained_reads(const void* buffer, std::size_t buffer_bytes, std::size_t bytes, int reads,
                                 std::int32_t sms, void* sink, cudaStream_t stream);

}  // namespace trunkline::cli
