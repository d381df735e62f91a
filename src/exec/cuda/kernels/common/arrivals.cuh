// Merging in the forward kernel: the CTA that writes a query's last partial merges all of them. The order of the merge
// is the plan's, so that the order of arrival changes no bit.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/merge_row.cuh"

namespace trunkline::cuda {

/// Counts one more partial of a query as arrived, for one KV head, after all of the task's are written.
/// \return the query's index in the merge lists if it was the last partial, with the counter back at 0; else -1
__device__ __forceinline__ std::int32_t count_arrival(const ForwardArgs& args, std::int32_t slot, std::int32_t head) {
  const std::int32_t merge = args.plan.partial_merges[slot];
  const std::int32_t count = args.plan.merge_begin[merge + 1] - args.plan.merge_begin[merge];
  std::int32_t* arrived = args.arrived + (merge * args.layer.kv_heads + head);
  if (count_one(arrived) + 1 != count) return -1;
  *arrived = 0;  // for the next launch
  return merge;
}

/// Called by all consumer warps, threads 0 to 32 kWarps - 1, after a barrier that follows the writes of a task's
/// partials. Each thread counts a query's arrival; then all warps merge the complete queries, 16 lanes a row. \param
/// task has `head`, `queries`, and token_of() and output_of() of each query; its outputs are overwritten, as only these
/// warps use them \param barrier named barrier of these warps \tparam kVaries whether layers may vary
template <class Element, int kDim, bool kVaries, int kWarps, class TaskInfo>
__device__ __forceinline__ void merge_arrivals(const ForwardArgs& args, TaskInfo& task, int barrier) {
  constexpr int kLanes = 16;
  constexpr int kRowsAtOnce = 32 * kWarps / kLanes;
  // With heads of 128, a lane has 16 loads in flight: 64 KB from L2, which brings an SM 64 bytes a clock. With heads of
  // 256 it has half as many: more would spill.
  constexpr int kAhead = kDim > 128 ? 2 : 8;
  static_assert(TaskInfo::kMaxQueries <= 32 * kWarps);
  // The barriers keep the compiler from computing this before the main loop, whose registers would spill.
  const auto thread = static_cast<int>(optimization_barrier(threadIdx.x));
  const auto group_size = static_cast<int>(optimization_barrier(static_cast<unsigned>(args.layer.group_size)));
  const auto q_heads = static_cast<std::int32_t>(optimization_barrier(static_cast<unsigned>(args.layer.q_heads)));
  if (thread < task.queries) {
    const std::int32_t slot = task.output_of(thread);
    task.output_of(thread) = slot >= 0 ? count_arrival(args, slot, task.head) : -1;
  }
  named_barrier(barrier, 32 * kWarps);
  const int rows = task.queries * group_size;
  const int lane = thread % kLanes;
  // Broadcast, so that the compiler knows that it is uniform: else each shuffle in the loop is a call.
  const int first_of_warp = __shfl_sync(kWholeWarp, thread / 32, 0) * (32 / kLanes);
  for (int first = first_of_warp; first < rows; first += kRowsAtOnce) {
    const int row = first + thread % 32 / kLanes;
    const int query = row / group_size;
    const std::int32_t merge = row < rows ? task.output_of(query) : -1;
    if (!__any_sync(kWholeWarp, merge >= 0)) continue;
    StateList list{nullptr, 0, 0};
    if (merge >= 0) {
      const std::int32_t begin = args.plan.merge_begin[merge];
      list = {args.plan.merge_slots + begin, begin, args.plan.merge_begin[merge + 1] - begin};
    }
    const std::int32_t head = task.head * group_size + row - query * group_size;
    const PartialStates<kDim> states{args.partials.out + std::int64_t{head} * kDim, args.partials.lse + head, q_heads};
    const auto merged = RowMerge<kDim, kLanes, kAhead, PartialStates<kDim>>(states, list, lane).run();
    if (merge >= 0) write_merged<Element, kVaries>(args.layer, task.token_of(query), head, merged, lane);
  }
}

}  // namespace trunkline::cuda
