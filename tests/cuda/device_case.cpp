#include "cuda/device_case.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numbers>

#include "base/check.hpp"
#include "base/half.hpp"
#include "exec/cuda/kernels/kernel_families.hpp"
#include "support/policies.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr int kGuard = 0xA5;
constexpr int kNan = 0xFF;  // 0xFFFF and 0xFFFFFFFF are NaN in fp16, bf16 and fp32

/// cudaMemset, and cudaMemcpy from pageable memory, may return before they are done, and a stream of a test's own does
/// not wait for them.
void wait_for_default_stream() {
  check(cudaStreamSynchronize(nullptr));
}

std::size_t cache_bytes(const AttentionCase& test) {
  return static_cast<std::size_t>(test.batch().num_pages * test.args().k.page_stride) * size_of(test.shape().kv_dtype);
}

std::size_t output_rows(const AttentionCase& test) {
  return static_cast<std::size_t>(test.batch().total_queries()) * static_cast<std::size_t>(test.shape().q_heads);
}

std::size_t output_elements(const AttentionCase& test) {
  return output_rows(test) * static_cast<std::size_t>(test.shape().head_dim_qk);
}

float widen(std::uint16_t bits, DType dtype) {
  return dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

}  // namespace

void check(cudaError_t error) {
  if (error != cudaSuccess) fail(ErrorCode::kInternal, cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

DeviceMemory::DeviceMemory(std::size_t bytes, bool nan) : size_(bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, bytes + kGuardBytes));
  data_ = static_cast<std::byte*>(data);
  check(cudaMemset(data_ + bytes, kGuard, kGuardBytes));
  fill(nan ? kNan : kGuard);
}

DeviceMemory::DeviceMemory(const void* host, std::size_t bytes) : DeviceMemory(bytes) {
  write(host, bytes);
}

DeviceMemory::~DeviceMemory() {
  std::vector<unsigned char> guard(kGuardBytes);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(guard.data(), data_ + size_, kGuardBytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(std::all_of(guard.begin(), guard.end(), [](unsigned char byte) { return byte == kGuard; }))
      << "bytes after an array of " << size_ << " bytes were written";
  cudaFree(data_);
}

void DeviceMemory::download(void* host) const {
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(host, data_, size_, cudaMemcpyDeviceToHost));
}

void DeviceMemory::write(const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice));
  wait_for_default_stream();
}

void DeviceMemory::fill(int byte) {
  check(cudaMemset(data_, byte, size_));
  wait_for_default_stream();
}

DeviceBatch::DeviceBatch(const Batch& batch)
    : kv_lens_(std::make_unique<DeviceMemory>(batch.kv_lens.data(), batch.kv_lens.size_bytes())) {
  const PageTable& pages = batch.pages;
  const auto rows = static_cast<std::size_t>(pages.rows());
  const PageIds ids = std::visit(
      [&](auto host) -> PageIds {
        ids_ = std::make_unique<DeviceMemory>(host.data(), host.size_bytes());
        return decltype(host)(ids_->as<typename decltype(host)::element_type>(), host.size());
      },
      pages.ids());
  if (pages.indptr() != nullptr) {
    indptr_ = std::make_unique<DeviceMemory>(pages.indptr(), (rows + 1) * sizeof(std::int32_t));
    view_.pages = PageTable::csr_on_device({indptr_->as<std::int32_t>(), rows + 1}, ids, pages.page_size());
  } else if (pages.row_map() != nullptr) {
    row_map_ = std::make_unique<DeviceMemory>(pages.row_map(), rows * sizeof(std::int32_t));
    view_.pages = PageTable::token_level_on_device(ids, pages.width(), {row_map_->as<std::int32_t>(), rows});
  } else {
    view_.pages = PageTable::dense(ids, pages.rows(), pages.width(), pages.page_size());
  }
  view_.kv_lens = kv_lens_->as<std::int32_t>();
}

void DeviceBatch::overwrite(const Batch& batch) {
  kv_lens_->write(batch.kv_lens.data(), batch.kv_lens.size_bytes());
  std::visit(
      [&](auto host) {
        ASSERT_LE(host.size_bytes(), ids_->size());
        ids_->write(host.data(), host.size_bytes());
      },
      batch.pages.ids());
}

AttentionShape on_cuda(AttentionShape shape) {
  shape.device = Device::kCuda;
  return shape;
}

std::vector<CudaKernels> kernels_for(const AttentionShape& shape) {
  std::vector<CudaKernels> kernels;
  const std::int32_t major = cuda_device_info(0).major;
  for (const cuda::KernelFamily& family : cuda::kernel_families()) {
    if (cuda::find_family(family.kernels, major, cuda::kernel_shape_of(shape)) != nullptr) {
      kernels.push_back(family.kernels);
    }
  }
  return kernels;
}

std::vector<RunWay> run_ways_of_all_kernels() {
  std::vector<RunWay> ways;
  for (const cuda::KernelFamily& family : cuda::kernel_families()) {
    for (const RunWay way : kRunWays) {
      if (way.shared_bytes > 0 && family.kernels != CudaKernels::kPortable) continue;  // a ring of one size only
      ways.push_back(way.with(family.kernels));
    }
  }
  return ways;
}

bool runs_here(RunWay way, const AttentionShape& shape) {
  const std::vector<CudaKernels> kernels = kernels_for(shape);
  return std::find(kernels.begin(), kernels.end(), way.kernels) != kernels.end();
}

MachineProfile cutting_gpu_profile(std::int32_t workers, CudaKernels kernels, std::int32_t head_dim) {
  MachineProfile profile = generic_cpu_profile(workers);
  profile.name = "cutting";
  profile.device = Device::kCuda;
  for (const cuda::KernelFamily& family : cuda::kernel_families()) {
    if (family.kernels != kernels) continue;
    profile.tiles = family.tiles(head_dim);
    profile.half_rows = family.half_rows;
  }
  profile.tile_steps.clear();
  profile.item_us = 0.001;
  profile.partial_us_per_kib = 0;
  profile.launch_us = 0;
  return profile;
}

DeviceTensors::DeviceTensors(const AttentionCase& test, const OutputForm& form)
    : test_(test),
      form_(form),
      q_(output_elements(test) * size_of(test.shape().q_dtype)),
      k_(cache_bytes(test)),
      v_(cache_bytes(test)),
      out_(output_elements(test) * (form.narrow ? size_of(test.shape().q_dtype) : sizeof(float)), true),
      lse_(output_rows(test) * sizeof(float), true),
      args_(test.args()) {
  copy_inputs(test);
  args_.q = q_.data();
  args_.k.data = k_.data();
  args_.v.data = v_.data();
  args_.out = out_.data();
  args_.out_dtype = form.narrow ? test.shape().q_dtype : DType::kF32;
  args_.out_token_stride = args_.out_head_stride = 0;
  args_.lse = lse_.as<float>();
  args_.lse_token_stride = args_.lse_head_stride = 0;
  args_.lse_base = form.base_two ? LseBase::kTwo : LseBase::kNatural;
  if (form.heads_first) {
    const std::int64_t queries = std::max(1, test.batch().total_queries());
    args_.lse_token_stride = 1;
    args_.lse_head_stride = queries;
    args_.out_token_stride = test.shape().head_dim_qk;
    args_.out_head_stride = queries * test.shape().head_dim_qk;
  }
  test.apply_changes(args_);
  copy_head_numbers(args_.sinks, test.shape().q_heads);
  for (TensorScale* scale : {&args_.q_scale, &args_.k_scale, &args_.v_scale}) {
    const std::int32_t numbers = (test.shape().kv_heads - 1) * static_cast<std::int32_t>(scale->head_stride) + 1;
    copy_head_numbers(scale->heads, numbers);
  }
}

void DeviceTensors::copy_head_numbers(const float*& numbers, std::int32_t count) {
  if (numbers == nullptr) return;
  head_numbers_.push_back(std::make_unique<DeviceMemory>(numbers, static_cast<std::size_t>(count) * sizeof(float)));
  numbers = head_numbers_.back()->as<float>();
}

void DeviceTensors::copy_inputs(const AttentionCase& from) {
  q_.write(from.args().q, q_.size());
  k_.write(from.args().k.data, k_.size());
  v_.write(from.args().v.data, v_.size());
}

void DeviceTensors::poison() {
  out_.fill(kNan);
  lse_.fill(kNan);
}

AttentionOutput DeviceTensors::download() const {
  std::vector<std::uint16_t> narrow(form_.narrow ? output_elements(test_) : 0);
  AttentionOutput got{std::vector<float>(output_elements(test_)), std::vector<float>(output_rows(test_))};
  out_.download(form_.narrow ? static_cast<void*>(narrow.data()) : got.o.data());
  lse_.download(got.lse.data());
  std::transform(narrow.begin(), narrow.end(), got.o.begin(),
                 [&](std::uint16_t bits) { return widen(bits, test_.shape().q_dtype); });
  if (form_.base_two) {
    for (float& lse : got.lse) lse *= std::numbers::ln2_v<float>;
  }
  if (!form_.heads_first) return got;
  const auto heads = static_cast<std::size_t>(test_.shape().q_heads);
  const auto d = static_cast<std::size_t>(test_.shape().head_dim_qk);
  const std::size_t queries = got.lse.size() / heads;
  AttentionOutput output = got;
  for (std::size_t query = 0; query < queries; ++query) {
    for (std::size_t head = 0; head < heads; ++head) {
      output.lse[query * heads + head] = got.lse[head * queries + query];
      std::copy_n(got.o.data() + (head * queries + query) * d, d, output.o.data() + (query * heads + head) * d);
    }
  }
  return output;
}

AttentionOutput run_cuda(const Plan& plan, const Batch& batch, CudaExecutor& executor, const DeviceBatch& on_device,
                         DeviceTensors& tensors) {
  const DeviceMemory workspace(executor.workspace_bytes(plan));
  tensors.poison();
  executor.upload(plan, batch, workspace.data(), workspace.size(), nullptr);
  executor.resolve(on_device.view(), workspace.data(), nullptr);
  executor.run(tensors.args(), workspace.data(), nullptr);
  AttentionOutput output = tensors.download();
  executor.release(workspace.data());
  return output;
}

AttentionOutput run_cuda(const AttentionCase& test, const Plan& plan, RunWay way, const OutputForm& form) {
  const DeviceBatch on_device(test.batch());
  DeviceTensors tensors(test, form);
  return run_cuda(plan, test.batch(), executor_of(way), on_device, tensors);
}

std::string text_of(RunWay way) {
  std::string forward = name_of(way.forward);
  forward[0] = static_cast<char>(std::toupper(forward[0]));
  return name_of(way.kernels) + forward + (way.merge == MergeMode::kFused ? "Fused" : "Separate") +
         (way.shared_bytes > 0 ? "SmallShared" : "");
}

CudaExecutor& executor_of(RunWay way) {
  static std::map<std::string, CudaExecutor> executors;
  return executors.try_emplace(text_of(way), way.options()).first->second;
}

double tolerance_of(DType dtype, bool narrow) {
  return (dtype == DType::kF16 ? 2e-3 : 1.2e-2) * (narrow ? 2 : 1);
}

void expect_all_policies_match(const AttentionCase& test, std::int32_t workers) {
  const DeviceBatch on_device(test.batch());
  DeviceTensors wide(test);
  DeviceTensors other(test, {.narrow = true, .base_two = true, .heads_first = true});
  std::size_t turn = 0;
  for (const CudaKernels kernels : kernels_for(test.shape())) {
    const MachineProfile profile = cutting_gpu_profile(workers, kernels, test.shape().head_dim_qk);
    for (const Policy policy : packing_policies()) {
      for (const KvSplit split : {KvSplit::kNone, KvSplit::kBalance, experimental::kSplitMean}) {
        SCOPED_TRACE(::testing::Message() << name_of(policy) << " split " << name_of(split));
        const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), profile, options_of(policy, split));
        ASSERT_EQ(find_plan_violation(plan, test.forest()), std::nullopt);
        for (const RunWay way : kRunWays) {
          const bool narrow = turn++ % 4 == 3;
          const AttentionOutput output =
              run_cuda(plan, test.batch(), executor_of(way.with(kernels)), on_device, narrow ? other : wide);
          ASSERT_TRUE(test.matches(output, tolerance_of(test.shape().q_dtype, narrow))) << text_of(way.with(kernels));
        }
      }
    }
  }
}

}  // namespace trunkline::testing
