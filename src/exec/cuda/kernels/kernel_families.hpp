// The families of forward kernels, which of them runs a shape, and their launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/cuda/kernels/compiled_kernel.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline::cuda {

/// The oldest compute capability of any family: mma.sync of 16-bit types with cp.async.
inline constexpr std::int32_t kLeastMajor = 8;

/// What a launch may use.
struct LaunchLimits {
  std::int32_t sms;          ///< the device's multiprocessors
  std::size_t shared_bytes;  ///< of a CTA; larger kernels are not taken, even where the device has more
};

/// A compiled forward kernel, and which launches it serves.
struct ForwardVariant {
  DType dtype;
  std::int32_t head_dim;
  TileShape tile;  ///< runs the items of this tile only; 0 x 0: of all tiles, or of the one that the arguments name
  bool merging;    ///< merges partials too, so that its registers differ
  CompiledKernel kernel;
};

/// A row of the table. A new family is a folder with these functions, and a row.
struct KernelFamily {
  CudaKernels kernels;
  std::int32_t least_major;  ///< compute capability
  std::int32_t most_major;
  std::int32_t half_rows;                   ///< MachineProfile::half_rows of its tiles
  std::int32_t page_quantum;                ///< `auto` takes it where the page size is a multiple of this
  std::span<const std::int32_t> tile_rows;  ///< m of its tiles, rising
  int (*tile_tokens)(int head_dim);         ///< n of its tiles
  /// All compiled kernels. Where several serve a launch, the first that the device has shared memory for runs.
  std::span<ForwardVariant> (*variants)();
  /// Enqueues one kernel with its parameters, of as many CTAs as `sms` multiprocessors hold at once.
  cudaError_t (*enqueue)(CompiledKernel& kernel, const ForwardArgs& args, DType dtype, std::int32_t sms,
                         cudaStream_t stream);
  /// Bytes of an item in DeviceStep::prologues, a multiple of 16; 0: the kernels do not read prologues.
  std::size_t (*prologue_bytes)();
  /// After resolve, once a step: writes the prologues, and what headers say of them. \param most items that any plan
  /// uploaded to this workspace can have
  cudaError_t (*write_prologues)(const StepArgs& args, std::int32_t group_size, std::size_t most, cudaStream_t stream);

  bool supports(DType dtype, std::int32_t head_dim) const;
  /// The tiles for a head dimension, rising in m. Empty where nothing is compiled.
  std::vector<TileShape> tiles(std::int32_t head_dim) const;
  /// What each variant that the present device can run takes there. Empty where nothing is compiled or the device
  /// cannot be used.
  std::vector<KernelFacts> facts(DType dtype, std::int32_t head_dim) const;

  /// Enqueues all items of the uploaded plan: one launch, whose CTAs take (item, KV head) tasks in the plan's order.
  /// args.next_task and args.done are 0 before and after. Capturable.
  /// \return cudaErrorNotSupported where nothing is compiled for it that the device can run
  cudaError_t launch_persistent(const ForwardArgs& args, DType dtype, std::int32_t head_dim, const LaunchLimits& limits,
                                cudaStream_t stream) const;
  /// Enqueues the items of one tile only. Launches that may overlap in time need a next_task and done of their own.
  cudaError_t launch_tile(const ForwardArgs& args, DType dtype, std::int32_t head_dim, TileShape tile,
                          const LaunchLimits& limits, cudaStream_t stream) const;
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
