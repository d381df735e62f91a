// Checks that all page ids that a batch's lengths reach are in [0, num_pages), and that lengths fit their rows.
//
// Bound: memory, by one read of each page id that a length reaches. The host then waits for the stream, so that this is
// a mode for checking and is not captured.
//
// Schedule. A warp takes one row after another, a lane an id. A fault is one 64-bit word, (row, entry + 1), with 0 for
// the row itself: atomicMin over all faults finds the first.
#include <algorithm>

#include "base/check.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/kernels/any/check_pages.hpp"
#include "exec/cuda/kernels/any/live_row.cuh"
#include "exec/cuda/kernels/common/page_offsets.cuh"

namespace trunkline::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kMaxBlocks = 4096;
constexpr std::uint64_t kNoFault = ~std::uint64_t{0};

// Encodes a fault so that the first one is the minimum: by row, then by entry. An entry + 1 of 0 stands for the row
// itself.
__host__ __device__ std::uint64_t fault_at(std::int32_t row, std::int64_t entry_plus_one) {
  return static_cast<std::uint64_t>(row) << 32 | static_cast<std::uint64_t>(entry_plus_one);
}

// One warp checks one row.
__global__ void __launch_bounds__(kThreads) check_kernel(const __grid_constant__ PageCheckArgs args) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const auto warp = static_cast<std::int32_t>(blockIdx.x * kWarps + threadIdx.x / 32);
  const auto warps = static_cast<std::int32_t>(gridDim.x * kWarps);
  auto* first_fault = reinterpret_cast<unsigned long long*>(args.first_fault);
  for (std::int32_t row = warp; row < args.row_count; row += warps) {
    const LiveRow live = live_row(args.rows, args.kv_lens, row);
    if (!live.fits) {
      if (lane == 0) atomicMin(first_fault, fault_at(row, 0));
      continue;
    }
    const std::int64_t pages = (std::int64_t{live.kv_len} + args.rows.page_size - 1) / args.rows.page_size;
    for (std::int64_t entry = lane; entry < pages; entry += 32) {
      const std::int64_t id = page_id(args.pages, live.ids_begin + entry);
      if (id < 0 || id >= args.num_pages) atomicMin(first_fault, fault_at(row, entry + 1));
    }
  }
}

template <class T>
T copied_back(const T* device) {
  T value{};
  check_cuda(cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost), "cudaMemcpy of a fault");
  return value;
}

[[noreturn]] void report(const PageCheckArgs& args, std::uint64_t fault) {
  const auto row = static_cast<std::int32_t>(fault >> 32);
  const auto entry_plus_one = static_cast<std::int64_t>(fault & 0xFFFFFFFFU);
  const DeviceRows& rows = args.rows;
  std::int64_t begin = rows.width * row;
  std::int64_t end = begin + rows.width;
  if (rows.indptr != nullptr) {
    begin = copied_back(rows.indptr + row);
    end = copied_back(rows.indptr + row + 1);
  } else if (rows.row_map != nullptr) {
    begin = copied_back(rows.row_map + row) * rows.width;
    end = begin + rows.width;
  }
  if (entry_plus_one == 0) {
    fail(ErrorCode::kOutOfRange, "kv_lens[", row, "] is ", copied_back(args.kv_lens + row),
         " and the row's pages are [", begin, ", ", end, ") of ", rows.entries,
         " entries; lengths must be >= 0 and have pages of ", rows.page_size, " tokens there");
  }
  const std::int64_t at = begin + entry_plus_one - 1;
  const std::int64_t id = args.pages.wide_ids != 0 ? copied_back(static_cast<const std::int64_t*>(args.pages.ids) + at)
                                                   : copied_back(static_cast<const std::int32_t*>(args.pages.ids) + at);
  fail(ErrorCode::kOutOfRange, "page ", entry_plus_one - 1, " of row ", row, " is ", id, "; the cache has ",
       args.num_pages, " pages");
}

}  // namespace

void check_pages(const PageCheckArgs& args, cudaStream_t stream) {
  if (args.num_pages < 1) {
    fail(ErrorCode::kInvalidArgument, "batch.num_pages is ", args.num_pages,
         "; checking page ids needs the number of pages of the cache");
  }
  check_cuda(cudaMemsetAsync(args.first_fault, 0xFF, sizeof(*args.first_fault), stream), "cudaMemsetAsync");
  const unsigned blocks = std::clamp((static_cast<unsigned>(args.row_count) + kWarps - 1) / kWarps, 1U, kMaxBlocks);
  check_kernel<<<blocks, kThreads, 0, stream>>>(args);
  check_cuda(cudaGetLastError(), "launching the page check");
  std::uint64_t fault = kNoFault;
  check_cuda(cudaMemcpyAsync(&fault, args.first_fault, sizeof(fault), cudaMemcpyDeviceToHost, stream),
             "copying the page check's result");
  check_cuda(cudaStreamSynchronize(stream), "the page check");
  if (fault != kNoFault) report(args, fault);
}

}  // namespace trunkline::cuda
