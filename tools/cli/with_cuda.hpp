// The program's work on CUDA devices. Builds without CUDA have a counterpart that refuses with cuda_status().reason.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/batch_file.hpp"
#include "cli/options.hpp"
#include "cli/run_backend.hpp"
#include "cli/tuned.hpp"

namespace trunkline::cli {

/// Runs on device options.cuda.device.
/// \throws Error(kUnsupported) when CUDA, the device or an option cannot be used, or --machine has a tile that is not
/// compiled; Error when some batch needs more memory than the host or the device has, before anything is allocated.
std::unique_ptr<RunBackend> make_cuda_backend(const Options& options, const std::vector<DecodeBatch>& batches);

/// Measures a device; takes some seconds. \throws Error(kUnsupported) as cuda_device_info, Error when a CUDA call
/// fails.
Tuned tune_cuda(std::int32_t device);

/// One of the compiled forward kernels on a device.
struct CudaKernelFacts {
  std::string name;   ///< "f16, head size 128"
  std::string tiles;  ///< "16x64 32x64 64x64"
  std::int32_t registers = 0;
  std::int64_t shared_bytes = 0;
  std::int32_t ctas_per_sm = 0;
};

/// Facts about a device that `doctor` prints beside cuda_device_info().
struct CudaDetails {
  std::string runtime;  ///< CUDA version that this build uses, "13.0"
  std::vector<CudaKernelFacts> kernels;
};
CudaDetails cuda_details(std::int32_t device);

}  // namespace trunkline::cli
