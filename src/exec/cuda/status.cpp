// Whether CUDA can be used, and what the devices are.
#include <cuda_runtime_api.h>
#include <algorithm>

#include <string>

#include "base/check.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/kernels/kernel_families.hpp"
#include "exec/cuda/support.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline {
namespace {

// CUDA's versions are 1000 * major + 10 * minor.
std::string version_text(int version) {
  return concat(version / 1000, ".", version % 1000 / 10);
}

// The first driver of each major version (CUDA release notes, table 2).
const char* min_driver() {
  return CUDART_VERSION >= 13000 ? "580" : "525";
}

std::string why_not(cudaError_t error) {
  int driver = 0;
  const bool known = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  if (!known && (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice)) {
    return concat("no NVIDIA driver is here: libcuda.so.1 cannot be loaded; this build needs driver ", min_driver(),
                  " or newer");
  }
  if (error == cudaErrorInsufficientDriver) {
    return concat("the NVIDIA driver is too old: it supports CUDA ", version_text(driver), ", this build uses CUDA ",
                  version_text(CUDART_VERSION), ", which needs driver ", min_driver(), " or newer");
  }
  if (error == cudaErrorNoDevice) {
    return concat("the NVIDIA driver, for CUDA ", version_text(driver),
                  ", shows no device to this process; CUDA_VISIBLE_DEVICES may hide them");
  }
  return concat("CUDA does not start: ", cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

CudaStatus query_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();  // clears the error: this function reports it, not a later call
    return {false, why_not(error), 0};
  }
  if (count == 0) return {false, why_not(cudaErrorNoDevice), 0};
  return {true, {}, count};
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  cuda::check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

GpuLimits limits_of(int device) {
  GpuLimits limits;
  limits.sms = attribute(cudaDevAttrMultiProcessorCount, device);
  limits.shared_bytes_per_sm = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  limits.shared_bytes_per_cta = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  limits.registers_per_sm = attribute(cudaDevAttrMaxRegistersPerMultiprocessor, device);
  limits.registers_per_thread = 255;  // for every compute capability from 8.0 to 12.1 (programming guide, table 30)
  limits.threads_per_sm = attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device);
  limits.ctas_per_sm = attribute(cudaDevAttrMaxBlocksPerMultiprocessor, device);
  return limits;
}

}  // namespace

CudaStatus cuda_status() {
  static const CudaStatus status = query_devices();
  return status;
}

CudaDeviceInfo cuda_device_info(std::int32_t device) {
  cuda::check_device(device);
  cudaDeviceProp properties{};
  cuda::check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  CudaDeviceInfo info;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.sms = properties.multiProcessorCount;
  info.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  info.l2_bytes = properties.l2CacheSize;
  cuda::check_cuda(cudaDriverGetVersion(&info.driver_version), "cudaDriverGetVersion");
  info.limits = limits_of(device);
  return info;
}

namespace cuda {

Support supports_shape(const AttentionShape& shape) {
  if (shape.q_dtype == DType::kF32) return {false, "q_dtype and kv_dtype are f32; supported on cuda: f16, bf16"};
  const auto families = kernel_families();
  const bool compiled = std::any_of(families.begin(), families.end(), [&](const KernelFamily& family) {
    return family.supports(kernel_shape_of(shape));
  });
  if (!compiled) {
    return {false, concat("no CUDA kernel is compiled for ", name_of(shape.q_dtype), " queries, ",
                          name_of(shape.kv_dtype), " K and V and head size ", shape.head_dim_qk)};
  }
  const CudaStatus status = cuda_status();
  if (!status.usable) return {false, concat("device cuda cannot be used: ", status.reason, "; supported: cpu")};
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, device);
  if (find_family(CudaKernels::kAuto, major, kernel_shape_of(shape)) != nullptr) return {true, {}};
  return {false, concat("no CUDA kernel for ", name_of(shape.q_dtype), " queries and ", name_of(shape.kv_dtype),
                        " K and V runs on compute capability ", major, ".x, that of the present device; supported: ",
                        "K and V of 8 bits on 9.0, the queries' type on 8.0 and later")};
}

}  // namespace cuda
}  // namespace trunkline
