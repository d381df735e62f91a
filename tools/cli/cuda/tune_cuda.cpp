// `trunkline tune` on a CUDA device.
#include <iostream>

#include "cli/cuda/device.hpp"
#include "cli/cuda/device_probes.hpp"
#include "cli/cuda/device_reads.hpp"
#include "cli/text.hpp"
#include "cli/tuned_device.hpp"
#include "cli/with_cuda.hpp"
#include "exec/cuda/device.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline::cli {
namespace {

void measure_reads(const CudaDeviceInfo& info, ReplayTimer& timer, const Stream& stream, Progress& progress,
                   DeviceMeasurement& measured) {
  DeviceReads reads(timer, stream, info.sms);
  progress.step("timing streaming reads");
  measured.stream = reads.stream_rate();
  measured.cache_bytes_per_us = reads.cache_rate(info.l2_bytes);
  progress.step("timing transfers of all sizes");
  measured.transfers = reads.transfers();
}

}  // namespace

Tuned tune_cuda(std::int32_t device) {
  constexpr std::size_t kSteps = 4;
  const CudaDeviceInfo info = cuda_device_info(device);
  const cuda::DeviceScope scope(device);
  const MachineProfile known =
      cuda_profile(device, AttentionShape::uniform(32, 8, 128, 16, DType::kF16, Device::kCuda), CudaKernels::kPortable);
  Progress progress(kSteps, std::cerr, stderr_is_terminal());
  const Stream stream;
  ReplayTimer timer;
  DeviceMeasurement measured;
  measure_reads(info, timer, stream, progress, measured);
  progress.step("timing launches, items and partials");
  DeviceProbes probes(device, known, timer, stream);
  measured.costs = costs_of(probes.cost_times());
  progress.step("timing items of all sizes in all tiles");
  measured.tile_times = probes.tile_times(measured.costs);
  measured.cached = probes.cached_table(measured.costs);
  MachineProfile reported = known;
  reported.llc_bytes = info.l2_bytes;
  return tuned_device(reported, info.name, std::move(measured));
}

}  // namespace trunkline::cli
