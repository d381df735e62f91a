#include "exec/cuda/kernels/compiled_kernel.hpp"

namespace trunkline::cuda {

// Allows the kernel to use its dynamic shared memory, and counts the CTAs of an SM.
cudaError_t CompiledKernel::prepare(OnDevice& on) const {
  const cudaError_t error =
      cudaFuncSetAttribute(function_, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes_));
  if (error != cudaSuccess) return error;
  const cudaError_t counted =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on.ctas_per_sm, function_, threads_, shared_bytes_);
  if (counted != cudaSuccess) return counted;
  return on.ctas_per_sm < 1 ? cudaErrorLaunchOutOfResources : cudaSuccess;
}

cudaError_t CompiledKernel::present_device(OnDevice** on) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (device >= kMaxDevices) return cudaErrorInvalidDevice;
  *on = &devices_[static_cast<std::size_t>(device)];
  std::call_once((*on)->once, [&] { (*on)->error = prepare(**on); });
  return (*on)->error;
}

bool CompiledKernel::runs_here() {
  OnDevice* on = nullptr;
  if (present_device(&on) == cudaSuccess) return true;
  cudaGetLastError();  // clears the error: an unsupported device is no error of the caller's
  return false;
}

cudaError_t CompiledKernel::facts(KernelFacts& facts) {
  OnDevice* on = nullptr;
  if (const cudaError_t error = present_device(&on); error != cudaSuccess) return error;
  cudaFuncAttributes attributes{};
  if (const cudaError_t error = cudaFuncGetAttributes(&attributes, function_); error != cudaSuccess) return error;
  facts = {threads_, attributes.numRegs, attributes.sharedSizeBytes + shared_bytes_, attributes.localSizeBytes,
           on->ctas_per_sm};
  return cudaSuccess;
}

cudaError_t CompiledKernel::launch(void** parameters, std::int32_t sms, bool early, cudaStream_t stream) {
  OnDevice* on = nullptr;
  if (const cudaError_t error = present_device(&on); error != cudaSuccess) return error;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(sms * on->ctas_per_sm));
  config.blockDim = dim3(static_cast<unsigned>(threads_));
  config.dynamicSmemBytes = shared_bytes_;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return cudaLaunchKernelExC(&config, function_, parameters);
}

}  // namespace trunkline::cuda
