// Writes the prologue of each item, once a step for all layers: the item's queries, and the records of its first 7
// stages.
//
// Bound: latency, by chains of reads of header, queries, spans, masks and page ids. Bytes: sizeof(TaskPrologue), 3.8 KB
// an item, is next to nothing beside the 230 KB of K and V that a first batch describes.
//
// Schedule. A warp takes one item after another, a lane for each slice; blocks of four warps, at most 1,024.
#include <algorithm>

#include "exec/cuda/kernels/sm90/forward/slice_walk.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_writer.cuh"
#include "exec/cuda/kernels/sm90/forward/task_prologue.cuh"
#include "exec/cuda/kernels/sm90/forward/task_queries.cuh"
#include "exec/cuda/kernels/sm90/forward/variants.hpp"

namespace trunkline::cuda::sm90 {
namespace {

constexpr unsigned kWarps = 4;
constexpr std::size_t kMaxBlocks = 1024;

// Writes the item's queries. \return the minimum of their limits
__device__ std::int32_t write_info(const TaskHeader& header, const ItemRow* rows, const QueryHalves& halves,
                                   std::int32_t group_size, int lane, ItemInfo& info) {
  if (lane == 0) {
    info.item = header.item;
    info.queries = halves.count();
    info.halves = halves.halves();
    info.has_partials = header.has_partials;
#pragma unroll
    for (int half = 0; half < kGroups; ++half) {
      info.first_query[half] = halves.first_of(half);
      info.half_rows[half] = halves.count_of(half) * group_size;
    }
  }
  // Rows behind a half's last have its last query, or its first if it has none.
  for (int row = lane; row < kGroupRows; row += 32) {
    const int query = row / group_size;
#pragma unroll
    for (int half = 0; half < kGroups; ++half) {
      info.row_query[kGroupRows * half + row] =
          static_cast<std::uint8_t>(halves.first_of(half) + max(min(query, halves.count_of(half) - 1), 0));
    }
  }
  std::int32_t min_of_lane = INT32_MAX;
  for (int query = lane; query < halves.count(); query += 32) {
    info.rows[query] = rows[query];
    min_of_lane = min(min_of_lane, rows[query].limit);
  }
  return __reduce_min_sync(kWholeWarp, min_of_lane);
}

template <bool kRuns>
__device__ void write_prologue(const StepArgs& args, std::int32_t place, std::int32_t group_size, int lane) {
  TaskHeader& header = args.step.tasks[place];
  TaskPrologue& prologue = reinterpret_cast<TaskPrologue*>(args.step.prologues)[place];
  const ItemRow* const rows = args.step.rows + header.rows.begin;
  const QueryHalves halves = halves_of(header);
  const std::int32_t min_of_all = write_info(header, rows, halves, group_size, lane, prologue.info);
  SliceWalk slices(args, lane);
  slices.begin(header, halves, rows, min_of_all);
  const int records = StageWriter<kRuns>(args, true, lane).write(slices, halves, kSlices, prologue.records);
  if (lane != 0) return;
  prologue.records[0].kind = StageRecord::kQueries;
  prologue.min_limit = min_of_all;
  header.prologue_records = static_cast<std::int16_t>(records);
  header.prologue_ends = slices.done() ? 1 : 0;
}

template <bool kRuns>
__global__ void __launch_bounds__(32 * kWarps)
    write_prologues_kernel(const __grid_constant__ StepArgs args, std::int32_t group_size) {
  const auto warp = static_cast<std::int32_t>(blockIdx.x * kWarps + threadIdx.x / 32);
  const auto warps = static_cast<std::int32_t>(gridDim.x * kWarps);
  const std::int32_t items = args.plan.counts->items;
  for (std::int32_t place = warp; place < items; place += warps)
    write_prologue<kRuns>(args, place, group_size, static_cast<int>(threadIdx.x % 32));
}

}  // namespace

std::size_t prologue_bytes() {
  return sizeof(TaskPrologue);
}

cudaError_t launch_write_prologues(const StepArgs& args, std::int32_t group_size, std::size_t max_items,
                                   cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>((max_items + kWarps - 1) / kWarps, 1, kMaxBlocks));
  if (copies_runs(args.pages.page_size)) {
    write_prologues_kernel<true><<<blocks, 32 * kWarps, 0, stream>>>(args, group_size);
  } else {
    write_prologues_kernel<false><<<blocks, 32 * kWarps, 0, stream>>>(args, group_size);
  }
  return cudaGetLastError();
}

}  // namespace trunkline::cuda::sm90
