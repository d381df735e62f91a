#include "exec/cuda/device.hpp"

#include "trunkline/cuda.hpp"

namespace trunkline::cuda {

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void check_device(std::int32_t device) {
  const CudaStatus status = cuda_status();
  if (!status.usable) fail(ErrorCode::kUnsupported, status.reason);
  if (device >= 0 && device < status.devices) return;
  fail(ErrorCode::kOutOfRange, "device is ", device, "; this process sees ", status.devices);
}

}  // namespace trunkline::cuda
