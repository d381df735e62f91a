// The plan report in host memory, which the device writes.
#pragma once

#include "trunkline/cuda_planner.hpp"

namespace trunkline::cuda {

class HostReport {
 public:
  HostReport();
  ~HostReport();
  HostReport(const HostReport&) = delete;
  HostReport& operator=(const HostReport&) = delete;

  CudaPlanReport read() const;
  CudaPlanReport* on_device() const { return on_device_; }

 private:
  CudaPlanReport* host_ = nullptr;
  CudaPlanReport* on_device_ = nullptr;
};

}  // namespace trunkline::cuda
