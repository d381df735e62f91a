#include "cli/cuda/tensors.hpp"

#include <span>

namespace trunkline::cli {
namespace {

constexpr int kNanByte = 0xFF;  // four of them are a NaN

std::size_t query_elements(const AttentionShape& shape, const PagedBatch& paged) {
  return static_cast<std::size_t>(paged.view().total_queries()) * static_cast<std::size_t>(shape.q_heads) *
         static_cast<std::size_t>(shape.head_dim);
}

std::size_t cache_bytes(const CacheView& cache, const AttentionShape& shape, const PagedBatch& paged) {
  return static_cast<std::size_t>(paged.num_pages * cache.page_stride) * size_of(shape.dtype);
}

}  // namespace

// Streams that do not wait for the default one read what is copied, here and below.
DeviceTable::DeviceTable(const PagedBatch& paged)
    : ids_(paged.page_ids.data(), paged.page_ids.size() * sizeof(std::int32_t)),
      kv_lens_(paged.kv_lens.data(), paged.kv_lens.size() * sizeof(std::int32_t)) {
  const std::span<const std::int32_t> ids(static_cast<const std::int32_t*>(ids_.data()), paged.page_ids.size());
  batch_.pages = PageTable::dense(ids, static_cast<std::int32_t>(paged.kv_lens.size()), paged.width, paged.page_size);
  batch_.kv_lens = static_cast<const std::int32_t*>(kv_lens_.data());
  batch_.num_pages = paged.num_pages;
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

DeviceTensors::DeviceTensors(const AttentionArgs& host, const AttentionShape& shape, const PagedBatch& paged)
    : out_bytes_(query_elements(shape, paged) * sizeof(float)),
      lse_bytes_(out_bytes_ / static_cast<std::size_t>(shape.head_dim)),
      q_(host.q, query_elements(shape, paged) * size_of(shape.dtype)),
      k_(host.k.data, cache_bytes(host.k, shape, paged)),
      v_(host.v.data, cache_bytes(host.v, shape, paged)),
      out_(out_bytes_),
      lse_(lse_bytes_),
      table_(paged),
      args_(host) {
  args_.q = q_.data();
  args_.k.data = k_.data();
  args_.v.data = v_.data();
  args_.out = out_.data();
  args_.lse = static_cast<float*>(lse_.data());
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void DeviceTensors::download(const AttentionArgs& host) const {
  check(cudaMemcpy(host.out, out_.data(), out_bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaMemcpy(host.lse, lse_.data(), lse_bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void DeviceTensors::poison() const {
  check(cudaMemset(out_.data(), kNanByte, out_bytes_), "cudaMemset");
  check(cudaMemset(lse_.data(), kNanByte, lse_bytes_), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace trunkline::cli
