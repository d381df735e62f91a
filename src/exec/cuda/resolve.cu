#include <algorithm>

#include "exec/cuda/live_row.cuh"
#include "exec/cuda/resolve.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr std::size_t kMaxBlocks = 1024;

__device__ ResolvedQuery resolve_query(const ResolveArgs& args, const RowQuery& query) {
  const std::int32_t limit = live_row(args.rows, args.kv_lens, query.row).kv_len - query.from_end;
  return {query.token, limit < 0 ? 0 : limit};
}

// KvSpan::at, and within the request.
__device__ ResolvedSpan resolve_span(const ResolveArgs& args, const RowSpan& span) {
  const LiveRow live = live_row(args.rows, args.kv_lens, span.row);
  const std::int32_t first = (span.flags & kSpanBeginFromEnd) != 0 ? live.kv_len + span.begin : span.begin;
  const std::int32_t last = (span.flags & kSpanEndFromEnd) != 0 ? live.kv_len + span.end : span.end;
  const std::int32_t begin = first < 0 ? 0 : first;
  const std::int32_t end = last < live.kv_len ? last : live.kv_len;
  return {live.ids_begin, begin, end < begin ? begin : end, span.mask, (span.flags & kSpanTokenMask) != 0 ? 1 : 0};
}

__global__ void __launch_bounds__(kThreads) resolve_kernel(const __grid_constant__ ResolveArgs args) {
  const auto thread = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x);
  const auto threads = static_cast<std::int32_t>(gridDim.x * kThreads);
  const PlanCounts counts = *args.plan.counts;
  for (std::int32_t i = thread; i < counts.spans; i += threads) {
    args.step.spans[i] = resolve_span(args, args.plan.spans[i]);
  }
  for (std::int32_t i = thread; i < counts.queries; i += threads) {
    args.step.queries[i] = resolve_query(args, args.plan.queries[i]);
  }
}

}  // namespace

cudaError_t launch_resolve(const ResolveArgs& args, std::size_t most, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>((most + kThreads - 1) / kThreads, 1, kMaxBlocks));
  resolve_kernel<<<blocks, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace trunkline::cuda
