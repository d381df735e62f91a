#include "cli/cuda/tensors.hpp"

#include <algorithm>
#include <span>

#include "cli/cuda/replay_kernels.hpp"

namespace trunkline::cli {
namespace {

constexpr int kNanByte = 0xFF;  // two of them are a NaN in 16 bits, four in 32

std::size_t query_elements(const AttentionShape& shape, const PagedBatch& paged) {
  return static_cast<std::size_t>(paged.view().total_queries()) * static_cast<std::size_t>(shape.q_heads) *
         static_cast<std::size_t>(shape.head_dim_qk);
}

std::size_t cache_bytes(const CacheView& cache, const AttentionShape& shape, const PagedBatch& paged) {
  return static_cast<std::size_t>(paged.num_pages * cache.page_stride) * size_of(shape.kv_dtype);
}

}  // namespace

std::int32_t rotated_copies(std::int64_t kv_bytes) {
  constexpr std::int64_t kRotated = 400'000'000;
  constexpr std::int64_t kOneIsEnough = 2'500'000'000;
  if (kv_bytes >= kOneIsEnough) return 1;
  return static_cast<std::int32_t>(kRotated / std::max<std::int64_t>(kv_bytes, 1 << 16)) + 2;
}

// Streams that do not wait for the default one read what is copied, here and below.
DeviceTable::DeviceTable(const PagedBatch& paged, std::int32_t copies)
    : entries_(paged.page_ids.size()),
      copy_pages_(static_cast<std::int32_t>(paged.num_pages)),
      first_ids_(paged.page_ids.data(), entries_ * sizeof(std::int32_t)),
      ids_(paged.page_ids.data(), entries_ * sizeof(std::int32_t)),
      kv_lens_(paged.kv_lens.data(), paged.kv_lens.size() * sizeof(std::int32_t)),
      query_start_(paged.query_start.data(), paged.query_start.size() * sizeof(std::int32_t)),
      query_parents_(paged.query_parents.data(), paged.query_parents.size() * sizeof(std::int32_t)) {
  const std::span<const std::int32_t> ids(static_cast<const std::int32_t*>(ids_.data()), entries_);
  batch_.pages = PageTable::dense(ids, static_cast<std::int32_t>(paged.kv_lens.size()), paged.width, paged.page_size);
  batch_.kv_lens = static_cast<const std::int32_t*>(kv_lens_.data());
  batch_.num_pages = paged.num_pages * copies;
  if (!paged.query_start.empty()) {
    batch_.query_start = static_cast<const std::int32_t*>(query_start_.data());
    batch_.query_parents = static_cast<const std::int32_t*>(query_parents_.data());
  }
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void DeviceTable::move_to(std::int32_t copy, cudaStream_t stream) const {
  check_cuda(
      launch_shift_ids(static_cast<const std::int32_t*>(first_ids_.data()), static_cast<std::int32_t*>(ids_.data()),
                       entries_, copy_pages_, copy * copy_pages_, stream),
      "launching a change of page ids");
}

TensorCopies::TensorCopies(const void* host, std::size_t bytes, std::int32_t count)
    : bytes_(bytes), count_(count), array_(bytes * static_cast<std::size_t>(count)) {
  check_cuda(cudaMemcpy(at(0), host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  repeat(0);
}

void TensorCopies::repeat(std::int32_t copy) const {
  for (std::int32_t other = 0; other < count_; ++other) {
    if (other != copy) check_cuda(cudaMemcpy(at(other), at(copy), bytes_, cudaMemcpyDeviceToDevice), "cudaMemcpy");
  }
}

void TensorCopies::poison_all_but(std::int32_t copy) const {
  for (std::int32_t other = 0; other < count_; ++other) {
    if (other != copy) check_cuda(cudaMemset(at(other), kNanByte, bytes_), "cudaMemset");
  }
}

DeviceTensors::DeviceTensors(const AttentionArgs& host, const AttentionShape& shape, const PagedBatch& paged,
                             std::int32_t copies)
    : copies_(copies),
      out_bytes_(query_elements(shape, paged) * sizeof(float)),
      lse_bytes_(out_bytes_ / static_cast<std::size_t>(shape.head_dim_qk)),
      q_(host.q, query_elements(shape, paged) * size_of(shape.q_dtype)),
      k_(host.k.data, cache_bytes(host.k, shape, paged), copies),
      v_(host.v.data, cache_bytes(host.v, shape, paged), copies),
      out_(out_bytes_),
      lse_(lse_bytes_),
      table_(paged, copies),
      args_(host) {
  args_.q = q_.data();
  args_.k.data = k_.data();
  args_.v.data = v_.data();
  args_.out = out_.data();
  args_.lse = static_cast<float*>(lse_.data());
  if (host.sinks != nullptr) {
    sinks_.emplace(host.sinks, static_cast<std::size_t>(shape.q_heads) * sizeof(float));
    args_.sinks = static_cast<const float*>(sinks_->data());
  }
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void DeviceTensors::rotate(cudaStream_t stream) {
  copy_ = (copy_ + 1) % copies_;
  table_.move_to(copy_, stream);
}

void DeviceTensors::poison_other_copies() const {
  k_.poison_all_but(copy_);
  v_.poison_all_but(copy_);
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void DeviceTensors::restore_other_copies() const {
  k_.repeat(copy_);
  v_.repeat(copy_);
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void DeviceTensors::download(const AttentionArgs& host) const {
  check_cuda(cudaMemcpy(host.out, out_.data(), out_bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
  check_cuda(cudaMemcpy(host.lse, lse_.data(), lse_bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void DeviceTensors::poison() const {
  check_cuda(cudaMemset(out_.data(), kNanByte, out_bytes_), "cudaMemset");
  check_cuda(cudaMemset(lse_.data(), kNanByte, lse_bytes_), "cudaMemset");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace trunkline::cli
