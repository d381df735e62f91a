// Resolves an uploaded plan on the device: turns its spans, queries and items into positions and page-table entries at
// the live lengths, once a step for all layers.
//
// Bound: latency. Each entry is a chain of reads: plan, then length and row of the page table.
//
// Schedule. A thread takes one span, one query of an item, and one item, each in a grid-stride loop; blocks of 128
// threads, at most 1,024. The grid covers the workspace's capacity, so that a captured launch serves any plan. The last
// block publishes the report of a device planner to the host.
#include <algorithm>

#include "exec/cuda/kernels/any/live_row.cuh"
#include "exec/cuda/kernels/any/resolve.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr std::size_t kMaxBlocks = 1024;

__device__ ItemRow resolve_row(const ResolveArgs& args, std::int32_t item_query) {
  const RowQuery query = args.plan.queries[args.plan.item_queries[item_query]];
  const std::int32_t limit = live_row(args.rows, args.kv_lens, query.row).kv_len - query.from_end;
  return {query.token, limit < 0 ? 0 : limit, args.plan.item_outputs[item_query], 0};
}

__device__ std::int64_t ids_of_first(const ResolveArgs& args) {
  return live_row(args.rows, args.kv_lens, args.plan.queries[args.plan.item_queries[0]].row).ids_begin;
}

// Equal to KvSpan::at, clipped to the request.
__device__ ResolvedSpan resolve_span(const ResolveArgs& args, const RowSpan& span) {
  const LiveRow live = live_row(args.rows, args.kv_lens, span.row);
  const std::int32_t first = (span.flags & kSpanBeginFromEnd) != 0 ? live.kv_len + span.begin : span.begin;
  const std::int32_t last = (span.flags & kSpanEndFromEnd) != 0 ? live.kv_len + span.end : span.end;
  const std::int32_t begin = first < 0 ? 0 : first;
  const std::int32_t end = last < live.kv_len ? last : live.kv_len;
  return {live.ids_begin, begin, end < begin ? begin : end, span.mask, (span.flags & kSpanTokenMask) != 0 ? 1 : 0};
}

__device__ TaskHeader resolve_task(const ResolveArgs& args, std::int32_t place) {
  const std::int32_t number = args.plan.schedule[place];
  const WorkItem item = args.plan.items[number];
  TaskHeader task{};
  if (item.spans.begin < item.spans.end) task.first = resolve_span(args, args.plan.spans[item.spans.begin]);
  task.spans = item.spans;
  task.rows = item.queries;
  task.item = number;
  task.tile_m = item.tile.m;
  task.tile_n = item.tile.n;
  task.first_half = item.first_half;
  for (std::int32_t i = item.queries.begin; i < item.queries.end && task.has_partials == 0; ++i) {
    task.has_partials = args.plan.item_outputs[i] >= 0 ? 1 : 0;
  }
  return task;
}

// Writes the report of a device planner to the host: by the first threads of a block, one for each word.
__device__ void publish(const PlannerReport& report) {
  static_assert(sizeof(CudaPlanReport) % sizeof(std::uint64_t) == 0);
  constexpr unsigned kWords = sizeof(CudaPlanReport) / sizeof(std::uint64_t);
  if (threadIdx.x >= kWords) return;
  reinterpret_cast<std::uint64_t*>(report.host)[threadIdx.x] =
      reinterpret_cast<const std::uint64_t*>(&report.report)[threadIdx.x];
}

__global__ void __launch_bounds__(kThreads) resolve_kernel(const __grid_constant__ ResolveArgs args) {
  const auto thread = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x);
  const auto threads = static_cast<std::int32_t>(gridDim.x * kThreads);
  const ListCounts counts = *args.plan.counts;
  if (counts.planner != 0 && blockIdx.x + 1 == gridDim.x) publish(*args.report);
  for (std::int32_t i = thread; i < counts.spans; i += threads)
    args.step.spans[i] = resolve_span(args, args.plan.spans[i]);
  for (std::int32_t i = thread; i < counts.item_queries; i += threads) args.step.rows[i] = resolve_row(args, i);
  for (std::int32_t i = thread; i < counts.items; i += threads) args.step.tasks[i] = resolve_task(args, i);
  if (thread == 0 && counts.item_queries > 0) *args.first_ids = ids_of_first(args);
}

}  // namespace

cudaError_t launch_resolve(const ResolveArgs& args, std::size_t max_items, cudaStream_t stream) {
  const auto blocks =
      static_cast<unsigned>(std::clamp<std::size_t>((max_items + kThreads - 1) / kThreads, 1, kMaxBlocks));
  resolve_kernel<<<blocks, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace trunkline::cuda
