// The families of forward kernels, and which of them runs a shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "exec/cuda/compiled_kernel.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline::cuda {

/// Of the devices that any of them runs on: mma.sync of 16-bit types with cp.async.
inline constexpr std::int32_t kLeastMajor = 8;

/// A row of the table: adding a kernel is a folder with these functions, and a row.
struct KernelFamily {
  CudaKernels kernels;
  std::int32_t least_major;  ///< compute capability
  std::int32_t most_major;
  std::int32_t half_rows;     ///< MachineProfile::half_rows of its tiles
  std::int32_t page_quantum;  ///< `auto` takes it where pages are a multiple of so many tokens
  bool (*supports)(DType dtype, std::int32_t head_dim);
  std::vector<TileShape> (*tiles)(std::int32_t head_dim);
  std::vector<KernelFacts> (*facts)(DType dtype, std::int32_t head_dim);
  cudaError_t (*launch_persistent)(const ForwardArgs& args, DType dtype, std::int32_t head_dim, std::int32_t sms,
                                   cudaStream_t stream);
  cudaError_t (*launch_tile)(const ForwardArgs& args, DType dtype, std::int32_t head_dim, TileShape tile,
                             std::int32_t sms, cudaStream_t stream);
  /// Of DeviceStep::openings an item, a multiple of 16; 0: it has none.
  std::size_t (*opening_bytes)();
  /// After resolve, once a step: writes them, and what headers say of them. \param most items that any plan uploaded to
  /// this workspace can have
  cudaError_t (*open_tasks)(const StepArgs& args, std::int32_t group_size, std::size_t most, cudaStream_t stream);
};

/// All, in the order in which `auto` takes them.
std::span<const KernelFamily> kernel_families();

/// Of those that a device of compute capability `major` runs, the first that has kernels for a type and head dimension.
/// \param wanted one family, whatever the page size, or kAuto \return null where there is none
const KernelFamily* find_family(CudaKernels wanted, std::int32_t major, DType dtype, std::int32_t head_dim,
                                std::int32_t page_size);

/// Whether there is one for a shape, with the reason why not.
Support supports_family(CudaKernels wanted, std::int32_t major, const AttentionShape& shape);

/// find_family() of a shape. \throws Error(kUnsupported) where there is none.
const KernelFamily& family_for(CudaKernels wanted, std::int32_t major, const AttentionShape& shape);

}  // namespace trunkline::cuda
