// Merging in the forward kernel: whoever brings a query's last partial merges them all. The lists' order is the plan's,
// so who comes last changes no bit.
#pragma once

#include <cstdint>

#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/merge_row.cuh"

namespace trunkline::cuda {

/// Counts one more partial of a query as arrived, for one KV head, after all of the task's are written.
/// \return the query's list where it was the last, with its counter back at 0; else one of no states.
__device__ __forceinline__ StateList count_arrival(const ForwardArgs& args, std::int32_t slot, std::int32_t head) {
  const std::int32_t merge = args.plan.partial_merges[slot];
  const std::int32_t first = args.plan.merge_begin[merge];
  const std::int32_t count = args.plan.merge_begin[merge + 1] - first;
  std::int32_t* arrived = args.arrived + (merge * args.layer.kv_heads + head);
  if (count_one(arrived) + 1 != count) return {nullptr, 0, 0};
  *arrived = 0;  // for the next launch
  return {args.plan.merge_slots + first, first, count};
}

/// By the consumer warps, together, once a task's partials are written and they have met. Each counts those of every
/// kWarps-th query, all at once.
/// \param task with `head`, `queries`, and `token` and `output` of each query
template <class Element, int kDim, int kWarps, class TaskInfo>
__device__ __forceinline__ void merge_arrivals(const ForwardArgs& args, const TaskInfo& task) {
  // Nothing here may be computed before the main loop, whose registers would spill.
  const auto thread = static_cast<int>(opaque(threadIdx.x));
  const int warp = __shfl_sync(kWholeWarp, thread / 32, 0);
  const int lane = thread % 32;
  const auto group_size = static_cast<int>(opaque(static_cast<unsigned>(args.layer.group_size)));
  const auto q_heads = static_cast<std::int32_t>(opaque(static_cast<unsigned>(args.layer.q_heads)));
  const int mine = warp + kWarps * lane;
  const std::int32_t slot = mine < task.queries ? task.output[mine] : kDirect;
  StateList list{nullptr, 0, 0};
  if (slot >= 0) list = count_arrival(args, slot, task.head);
  __syncwarp();
  for (unsigned complete = __ballot_sync(kWholeWarp, list.count > 0); complete != 0; complete &= complete - 1) {
    const int from = __ffs(static_cast<int>(complete)) - 1;
    const std::int32_t first = __shfl_sync(kWholeWarp, list.first, from);
    const StateList states_of_query{args.plan.merge_slots + first, first, __shfl_sync(kWholeWarp, list.count, from)};
    for (int member = 0; member < group_size; ++member) {
      const std::int32_t head = task.head * group_size + member;
      const PartialStates<kDim> states{args.partials.out + std::int64_t{head} * kDim, args.partials.lse + head,
                                       q_heads};
      write_merged<Element>(args.layer, task.token[warp + kWarps * from], head,
                            merge_row<kDim>(states, states_of_query, lane), lane);
    }
  }
}

}  // namespace trunkline::cuda
