// A synthetic batch's tensors, and memory for plans, on a CUDA device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cli/cuda/device.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/attention.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline::cli {

/// A batch's page table, lengths and draft trees, of a cache of which there may be several copies.
class DeviceTable {
 public:
  explicit DeviceTable(const PagedBatch& paged, std::int32_t copies = 1);
  const CudaBatch& batch() const { return batch_; }
  /// Enqueues: the ids become those of a copy.
  void move_to(std::int32_t copy, cudaStream_t stream) const;

 private:
  std::size_t entries_;
  std::int32_t copy_pages_;
  DeviceArray first_ids_;  // of the first copy
  DeviceArray ids_;
  DeviceArray kv_lens_;
  DeviceArray query_start_;
  DeviceArray query_parents_;
  CudaBatch batch_;
};

/// Copies of a tensor, side by side.
class TensorCopies {
 public:
  /// \param bytes of one
  TensorCopies(const void* host, std::size_t bytes, std::int32_t count);
  /// The first.
  void* data() const { return array_.data(); }
  /// Makes the others what one is.
  void repeat(std::int32_t copy) const;
  /// Fills the others with NaN.
  void poison_all_but(std::int32_t copy) const;

 private:
  std::byte* at(std::int32_t copy) const {
    return static_cast<std::byte*>(array_.data()) + static_cast<std::size_t>(copy) * bytes_;
  }

  std::size_t bytes_;
  std::int32_t count_;
  DeviceArray array_;
};

/// Copies of a synthetic cache's tensors and of its batch's page table and lengths.
class DeviceTensors {
 public:
  /// \param host O is in fp32, and there is an LSE
  /// \param copies of K and V, side by side
  DeviceTensors(const AttentionArgs& host, const AttentionShape& shape, const PagedBatch& paged,
                std::int32_t copies = 1);

  /// As `host` had them, but on the device.
  const AttentionArgs& args() const { return args_; }
  const CudaBatch& batch() const { return table_.batch(); }

  /// Enqueues: the batch's page table names the next copy of K and V. Page ids that a step has resolved are still those
  /// of the copy before, so it must be resolved anew before it is run. For ReplayTimer: K and V are then cold, but Q,
  /// plan and page table are not, as published figures of attention kernels are mostly taken; what is resolved has just
  /// been written, as in the first layer of a step.
  void rotate(cudaStream_t stream);
  /// Fills all copies but the one that the page table names with NaN: who reads them has a wrong output.
  void poison_other_copies() const;
  /// Makes all copies what that one is.
  void restore_other_copies() const;

  /// Copies O and the LSE to where `host` has them.
  void download(const AttentionArgs& host) const;
  /// Fills O and the LSE with NaN, so that what is not written is not taken for the output of the run before.
  void poison() const;

 private:
  std::int32_t copies_;
  std::int32_t copy_ = 0;
  std::size_t out_bytes_;
  std::size_t lse_bytes_;
  DeviceArray q_;
  TensorCopies k_;
  TensorCopies v_;
  DeviceArray out_;
  DeviceArray lse_;
  std::optional<DeviceArray> sinks_;
  DeviceTable table_;
  AttentionArgs args_;
};

/// Copies of K and V of which one is cold when its turn comes again: together more than 400 MB, unless one has 2.5 GB.
/// \param kv_bytes of one copy, K and V together
std::int32_t rotated_copies(std::int64_t kv_bytes);

/// Device memory for one plan, given back to the executor before it is freed.
class DeviceWorkspace {
 public:
  /// \param plan Plan or CudaPlanner
  template <class Source>
  DeviceWorkspace(CudaExecutor& executor, const Source& plan)
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
