// The families of forward kernels: the choice of a family for a shape, and launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/cuda/kernels/compiled_kernel.hpp"
#include "exec/cuda/kernels/kernel_shape.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline::cuda {

/// The oldest compute capability of any family: mma.sync of 16-bit types with cp.async.
inline constexpr std::int32_t kMinMajor = 8;

/// Resources that a launch may use.
struct LaunchLimits {
  std::int32_t sms;          ///< the device's multiprocessors
  std::size_t shared_bytes;  ///< of a CTA; larger kernels are not launched, even if the device has more
};

/// A compiled forward kernel, and the launches that it serves.
struct ForwardVariant {
  DType q_dtype;
  std::int32_t kv_bytes;  ///< of an element of K and V: 2 for Q's type, 1 for e4m3 and e5m2
  std::int32_t head_dim;
  bool varies;   ///< it serves layers that vary (LayerArgs::varies), too
  bool merging;  ///< it merges partials too, so that its registers differ
  CompiledKernel kernel;
  bool (*takes_pages)(std::int32_t page_size) = nullptr;  ///< null: pages of all sizes
};

/// A row of the table of families. A new family is a folder with these functions, and a row.
struct KernelFamily {
  CudaKernels kernels;
  std::int32_t min_major;  ///< compute capability
  std::int32_t max_major;
  std::int32_t half_rows;                                    ///< MachineProfile::half_rows of its tiles
  std::span<const std::int32_t> (*tile_rows)(int head_dim);  ///< m of its tiles, rising
  int (*tile_tokens)(int head_dim);                          ///< n of its tiles
  /// Returns all compiled kernels. If several serve a launch, the first whose shared memory the device has runs.
  std::span<ForwardVariant> (*variants)();
  /// Enqueues one kernel with as many CTAs as `sms` multiprocessors hold at once.
  cudaError_t (*enqueue)(CompiledKernel& kernel, const ForwardArgs& args, const KernelShape& shape, std::int32_t sms,
                         cudaStream_t stream);
  /// Returns the bytes of an item in DeviceStep::prologues, a multiple of 16; 0: the kernels do not read prologues.
  std::size_t (*prologue_bytes)();
  /// Writes the prologues, and their members of task headers, after resolve, once a step. \param max_items maximum of
  /// items of any plan uploaded to this workspace
  cudaError_t (*write_prologues)(const StepArgs& args, std::int32_t group_size, std::size_t max_items,
                                 cudaStream_t stream);

  bool supports(const KernelShape& shape) const;
  /// Returns the tiles for a head dimension, ascending in m; none if no kernel is compiled.
  std::vector<TileShape> tiles(std::int32_t head_dim) const;
  /// Returns the resources of each variant that the present device can run; none if no kernel is compiled or the device
  /// cannot be used.
  std::vector<KernelFacts> facts(const KernelShape& shape) const;

  /// Enqueues the items of the uploaded plan, or those of the tile in args: one launch, whose CTAs take (item, KV head)
  /// tasks in the plan's order. args.next_task and args.done are 0 before and after; launches that may overlap in time
  /// need separate ones. Capturable. \return cudaErrorNotSupported if no variant serves it that the device can run
  cudaError_t launch(const ForwardArgs& args, const KernelShape& shape, const LaunchLimits& limits,
                     cudaStream_t stream) const;
};

/// Returns all families, in the order in which `auto` prefers them.
std::span<const KernelFamily> kernel_families();

/// Finds the first family with kernels for a shape that a device of compute capability `major` runs.
/// \param wanted a family, or kAuto \return null if there is none
const KernelFamily* find_family(CudaKernels wanted, std::int32_t major, const KernelShape& shape);

/// Whether there is a family for a shape, else the reason.
Support supports_family(CudaKernels wanted, std::int32_t major, const AttentionShape& shape);

/// Returns find_family() of a shape. \throws Error(kUnsupported) if there is none
const KernelFamily& family_for(CudaKernels wanted, std::int32_t major, const AttentionShape& shape);

}  // namespace trunkline::cuda
