// An AttentionCase on the GPU: its tensors and tables in device memory, and runs of plans there.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/attention_case.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {

/// Skips its tests, with the reason, where there is no GPU.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const CudaStatus status = cuda_status(); !status.usable) GTEST_SKIP() << status.reason;
  }
};

/// \throws Error when a call of the CUDA runtime fails.
void check(cudaError_t error);

/// Device memory with a guard behind it: stray writes there fail the test.
class DeviceMemory {
 public:
  /// Whatever streams find it as it was made, written or filled. Filled with bytes that are no small number: 0xA5, or a
  /// NaN in 16 and 32 bits where `nan`.
  explicit DeviceMemory(std::size_t bytes, bool nan = false);
  DeviceMemory(const void* host, std::size_t bytes);
  template <class T>
  explicit DeviceMemory(const std::vector<T>& host) : DeviceMemory(host.data(), host.size() * sizeof(T)) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  std::size_t size() const { return size_; }
  /// Waits for the whole device.
  void download(void* host) const;
  void write(const void* host, std::size_t bytes);
  /// All bytes with one value.
  void fill(int byte);

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The tables and lengths of a batch on the device.
class DeviceBatch {
 public:
  explicit DeviceBatch(const Batch& batch);
  const CudaBatch& view() const { return view_; }
  /// Other ids and lengths at the same addresses, as an engine's next step has them; the table must be as large.
  void overwrite(const Batch& batch);

 private:
  std::unique_ptr<DeviceMemory> ids_;
  std::unique_ptr<DeviceMemory> indptr_;
  std::unique_ptr<DeviceMemory> row_map_;
  std::unique_ptr<DeviceMemory> kv_lens_;
  CudaBatch view_;
};

AttentionShape on_cuda(AttentionShape shape);

/// A profile with the tiles of compiled kernels, on which cutting pays at every length that a test can afford.
MachineProfile cutting_gpu_profile(std::int32_t workers, CudaKernels kernels = CudaKernels::kPortable,
                                   std::int32_t head_dim = 128);

/// The families of kernels that the device has for a shape.
std::vector<CudaKernels> kernels_for(const AttentionShape& shape);

/// The form of the outputs. A test reads them as O in fp32 and the natural LSE, [T, Hq].
struct OutputForm {
  bool narrow = false;       ///< O in the shape's type instead of fp32
  bool base_two = false;     ///< LSE
  bool heads_first = false;  ///< LSE [Hq, T], O [Hq, T, d]
};

/// Tensors of a case on the device.
class DeviceTensors {
 public:
  explicit DeviceTensors(const AttentionCase& test, const OutputForm& form = {});
  const AttentionArgs& args() const { return args_; }
  /// Fills O and LSE with NaN.
  void poison();
  AttentionOutput download() const;
  /// K, V and Q of a case of the same sizes.
  void copy_inputs(const AttentionCase& from);

 private:
  void copy_head_numbers(const float*& numbers, std::int32_t heads);

  const AttentionCase& test_;
  OutputForm form_;
  DeviceMemory q_;
  DeviceMemory k_;
  DeviceMemory v_;
  DeviceMemory out_;
  DeviceMemory lse_;
  AttentionArgs args_;
  std::vector<std::unique_ptr<DeviceMemory>> head_numbers_;  // sinks and scales
};

/// A way to run a plan; all ways of one family of kernels give the same bits.
struct RunWay {
  experimental::ForwardMode forward = experimental::ForwardMode::kPersistent;
  MergeMode merge = MergeMode::kSeparate;
  CudaKernels kernels = CudaKernels::kPortable;
  std::size_t shared_bytes = 0;  ///< experimental::CudaStudy's, for the portable kernels

  RunWay with(CudaKernels others) const {
    return {forward, merge, others, others == CudaKernels::kPortable ? shared_bytes : 0};
  }
  CudaOptions options() const {
    return {.kernels = kernels,
            .study = std::make_shared<experimental::CudaStudy>(experimental::CudaStudy{forward, merge, shared_bytes})};
  }
};
/// Shared memory of a CTA on compute capability 8.6, 8.9 and 12.0.
inline constexpr std::size_t kSmallSharedBytes = 99 * 1024;
inline constexpr RunWay kRunWays[] = {
    {experimental::ForwardMode::kPersistent, MergeMode::kSeparate},
    {experimental::ForwardMode::kPersistent, MergeMode::kFused},
    {experimental::ForwardMode::kPersistent, MergeMode::kSeparate, CudaKernels::kPortable, kSmallSharedBytes},
    {experimental::ForwardMode::kStreams, MergeMode::kSeparate},
    {experimental::ForwardMode::kStreams, MergeMode::kFused},
    {experimental::ForwardMode::kSerial, MergeMode::kSeparate},
    {experimental::ForwardMode::kSerial, MergeMode::kFused}};

/// Uploads, resolves and runs a plan on memory of its own, by default with the portable kernels.
AttentionOutput run_cuda(const AttentionCase& test, const Plan& plan, RunWay way = {}, const OutputForm& form = {});
/// Runs a plan on given tensors and a given table, for many plans of one case.
AttentionOutput run_cuda(const Plan& plan, const Batch& batch, CudaExecutor& executor, const DeviceBatch& on_device,
                         DeviceTensors& tensors);

/// Returns the ways of all kernels; a test must skip those that the device lacks, by runs_here().
std::vector<RunWay> run_ways_of_all_kernels();
bool runs_here(RunWay way, const AttentionShape& shape);
/// Returns a name such as "portableStreamsFused".
std::string text_of(RunWay way);
/// Returns the executor of a way, kept for all tests of the binary.
CudaExecutor& executor_of(RunWay way);

/// Returns the tolerance of O against the oracle, which has the same inputs: P is rounded to 16 bits before the product
/// with V, 11 of them of precision in fp16 and 8 in bf16; a 16-bit O is rounded once more. Elements are normal, sums of
/// them at most about 4.
double tolerance_of(DType dtype, bool narrow = false);

/// Expects the oracle's result of all kernels for the case's shape x policies x cuts x ways to run, planned with
/// cutting_gpu_profile(workers); every fourth run has other output forms.
void expect_all_policies_match(const AttentionCase& test, std::int32_t workers);

}  // namespace trunkline::testing
