// A synthetic batch's tensors, and memory for plans, on a CUDA device.
#pragma once

#include <cstddef>

#include "cli/cuda/device.hpp"
#include "kv/paged_batch.hpp"
#include "trunkline/attention.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline::cli {

/// A batch's page table and lengths.
class DeviceTable {
 public:
  explicit DeviceTable(const PagedBatch& paged);
  const CudaBatch& batch() const { return batch_; }

 private:
  DeviceArray ids_;
  DeviceArray kv_lens_;
  CudaBatch batch_;
};

/// Copies of a synthetic cache's tensors and of its batch's page table and lengths.
class DeviceTensors {
 public:
  /// \param host O is in fp32, and there is an LSE
  DeviceTensors(const AttentionArgs& host, const AttentionShape& shape, const PagedBatch& paged);

  /// As `host` had them, but on the device.
  const AttentionArgs& args() const { return args_; }
  const CudaBatch& batch() const { return table_.batch(); }

  /// Copies O and the LSE to where `host` has them.
  void download(const AttentionArgs& host) const;
  /// Fills O and the LSE with NaN, so that what is not written is not taken for the output of the run before.
  void poison() const;

 private:
  std::size_t out_bytes_;
  std::size_t lse_bytes_;
  DeviceArray q_;
  DeviceArray k_;
  DeviceArray v_;
  DeviceArray out_;
  DeviceArray lse_;
  DeviceTable table_;
  AttentionArgs args_;
};

/// Device memory for one plan, given back to the executor before it is freed.
class DeviceWorkspace {
 public:
  DeviceWorkspace(CudaExecutor& executor, const Plan& plan)
      : executor_(executor), bytes_(executor.workspace_bytes(plan)), memory_(bytes_) {}
  ~DeviceWorkspace() { executor_.release(memory_.data()); }
  DeviceWorkspace(const DeviceWorkspace&) = delete;
  DeviceWorkspace& operator=(const DeviceWorkspace&) = delete;
  void* data() const { return memory_.data(); }
  std::size_t bytes() const { return bytes_; }

 private:
  CudaExecutor& executor_;
  std::size_t bytes_;
  DeviceArray memory_;
};

}  // namespace trunkline::cli
