#include "cli/cuda/tensors.hpp"

#include <algorithm>
#include <span>

#include "cli/cuda/replay_kernels.hpp"

namespace trunkline::cli {
namespace {

constexpr int kNanByte = 0xFF;  // two of them are a NaN in 16 bits, four in 32

std::size_t query_elements(const AttentionShape& shape, const PagedBatch& paged) {
  return static_cast<std::size_t>(paged.view().total_queries()) * static_cast<std::size_t>(shape.q_heads) *
         static_cast<std::size_t>(shape.head_dim);
}

std::size_t cache_bytes(const CacheView& cache, const AttentionShape& shape, const PagedBatch& paged) {
  return static_cast<std::size_t>(paged.num_pages * cache.page_stride) * size_of(shape.dtype);
}

DeviceArray repeated(const void* host, std::size_t bytes, std::int32_t copies) {
  DeviceArray array(bytes * static_cast<std::size_t>(copies));
  auto* to = static_cast<std::byte*>(array.data());
  check_cuda(cudaMemcpy(to, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  for (std::int32_t copy = 1; copy < copies; ++copy) {
    check_cuda(cudaMemcpy(to + static_cast<std::size_t>(copy) * bytes, to, bytes, cudaMemcpyDeviceToDevice),
               "cudaMemcpy");
  }
  return array;
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
      kv_lens_(paged.kv_lens.data(), paged.kv_lens.size() * sizeof(std::int32_t)) {
  const std::span<const std::int32_t> ids(static_cast<const std::int32_t*>(ids_.data()), entries_);
  batch_.pages = PageTable::dense(ids, static_cast<std::int32_t>(paged.kv_lens.size()), paged.width, paged.page_size);
  batch_.kv_lens = static_cast<const std::int32_t*>(kv_lens_.data());
  batch_.num_pages = paged.num_pages * copies;
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void DeviceTable::move_to(std::int32_t copy, cudaStream_t stream) const {
  check_cuda(
      launch_shift_ids(static_cast<const std::int32_t*>(first_ids_.data()), static_cast<std::int32_t*>(ids_.data()),
                       entries_, copy_pages_, copy * copy_pages_, stream),
      "launching a change of page ids");
}

DeviceTensors::DeviceTensors(const AttentionArgs& host, const AttentionShape& shape, const PagedBatch& paged,
                             std::int32_t copies)
    : copies_(copies),
      k_bytes_(cache_bytes(host.k, shape, paged)),
      v_bytes_(cache_bytes(host.v, shape, paged)),
      out_bytes_(query_elements(shape, paged) * sizeof(float)),
      lse_bytes_(out_bytes_ / static_cast<std::size_t>(shape.head_dim)),
      q_(host.q, query_elements(shape, paged) * size_of(shape.dtype)),
      k_(repeated(host.k.data, k_bytes_, copies)),
      v_(repeated(host.v.data, v_bytes_, copies)),
      out_(out_bytes_),
      lse_(lse_bytes_),
      table_(paged, copies),
      args_(host) {
  args_.q = q_.data();
  args_.k.data = k_.data();
  args_.v.data = v_.data();
  args_.out = out_.data();
  args_.lse = static_cast<float*>(lse_.data());
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void DeviceTensors::rotate(cudaStream_t stream) {
  copy_ = (copy_ + 1) % copies_;
  table_.move_to(copy_, stream);
}

template <class Change>
void DeviceTensors::change_other_copies(const DeviceArray& tensor, std::size_t bytes, Change change) const {
  auto* const first = static_cast<std::byte*>(tensor.data());
  const std::byte* const present = first + static_cast<std::size_t>(copy_) * bytes;
  for (std::int32_t copy = 0; copy < copies_; ++copy) {
    if (copy != copy_)
      check_cuda(change(first + static_cast<std::size_t>(copy) * bytes, present, bytes), "changing K and V");
  }
}

void DeviceTensors::poison_other_copies() const {
  const auto poison = [](std::byte* copy, const std::byte*, std::size_t bytes) {
    return cudaMemset(copy, kNanByte, bytes);
  };
  change_other_copies(k_, k_bytes_, poison);
  change_other_copies(v_, v_bytes_, poison);
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void DeviceTensors::restore_other_copies() const {
  const auto restore = [](std::byte* copy, const std::byte* present, std::size_t bytes) {
    return cudaMemcpy(copy, present, bytes, cudaMemcpyDeviceToDevice);
  };
  change_other_copies(k_, k_bytes_, restore);
  change_other_copies(v_, v_bytes_, restore);
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
