// The queue of (item, KV head) tasks, which all CTAs of a launch take from.
#pragma once

#include <cstdint>

#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/ptx.cuh"
#include "exec/cuda/sm80/config.hpp"

namespace trunkline::cuda::sm80 {

/// Hands a CTA's producer warps their tasks, the same to all. Task t is KV head t % Hkv of item schedule[t / Hkv]: the
/// heads of an item run together, so that pages whose heads lie side by side are read as wholes.
class TaskQueue {
  static constexpr int kProducerBarrier = 2;

 public:
  struct Task {
    WorkItem item;
    std::int32_t head;
    std::int32_t number;  // place in the schedule * Hkv + head
  };

  /// \param popped shared by the producer warps, of which `warp` is one
  __device__ __forceinline__ TaskQueue(const ForwardArgs& args, std::int32_t (&popped)[2], int warp, int lane)
      : args_(args),
        popped_(popped),
        first_lane_(warp == 0 && lane == 0),
        next_(static_cast<std::int32_t>(blockIdx.x)) {
    tasks_ = args.plan.counts->items * args.layer.kv_heads;
  }

  /// \return false when there are no more.
  __device__ __forceinline__ bool pop(Task& task) {
    for (;;) {
      // Two places by turns: who waits here for the second has read the first.
      turn_ ^= 1;
      if (first_lane_) popped_[turn_] = next_;
      named_barrier(kProducerBarrier, 32 * kProducerWarps);
      const std::int32_t number = popped_[turn_];
      if (number >= tasks_) return false;
      // Asked for now and needed after this task: its latency is hidden.
      if (first_lane_) next_ = static_cast<std::int32_t>(gridDim.x) + atomicAdd(args_.next_task, 1);
      const std::int32_t place = number / args_.layer.kv_heads;
      task.item = args_.plan.items[args_.plan.schedule[place]];
      task.head = number - place * args_.layer.kv_heads;
      task.number = number;
      const bool wanted = args_.tile_m == 0 || (task.item.tile.m == args_.tile_m && task.item.tile.n == args_.tile_n);
      if (wanted) return true;
    }
  }

  /// Once by each CTA, after its last pop: the last one to leave makes the queue ready for the next launch.
  __device__ __forceinline__ void leave() const {
    if (!first_lane_) return;
    __threadfence();
    if (atomicAdd(args_.done, 1) + 1 != static_cast<std::int32_t>(gridDim.x)) return;
    atomicExch(args_.next_task, 0);
    atomicExch(args_.done, 0);
  }

 private:
  const ForwardArgs& args_;
  std::int32_t (&popped_)[2];
  bool first_lane_;    // of the first producer warp: the one that takes from the queue
  std::int32_t next_;  // its
  int turn_ = 0;
  std::int32_t tasks_;
};

}  // namespace trunkline::cuda::sm80
