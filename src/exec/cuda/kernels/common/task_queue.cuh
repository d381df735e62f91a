// The queue of (item, KV head) tasks, which all CTAs of a launch take from.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda {

/// Hands a CTA's producer warps their tasks, the same to all. Task t is KV head t % Hkv of the item at place t / Hkv of
/// the schedule: the heads of an item run together, so that pages whose heads lie side by side are read as wholes.
template <int kProducerWarps>
class TaskQueue {
  static constexpr int kProducerBarrier = 2;

 public:
  struct Task {
    TaskHeader header;
    std::int32_t head;
    std::int32_t number;  // place in the schedule * Hkv + head
  };

  /// \param popped shared by the producer warps, of which `warp` is one
  __device__ __forceinline__ TaskQueue(const ForwardArgs& args, std::int32_t (&popped)[2], int warp, int lane)
      : args_(args),
        popped_(popped),
        first_lane_(warp == 0 && lane == 0),
        next_(static_cast<std::int32_t>(blockIdx.x)) {}

  /// After the first, a task that was claimed. \return false when there are no more.
  __device__ __forceinline__ bool pop(Task& task) {
    for (;; claim()) {
      // Two places by turns: who waits here for the second has read the first.
      turn_ ^= 1;
      if (first_lane_) popped_[turn_] = next_;
      named_barrier(kProducerBarrier, 32 * kProducerWarps);
      task.number = popped_[turn_];
      const std::int32_t place = task.number / args_.layer.kv_heads;
      task.head = task.number - place * args_.layer.kv_heads;
      if (place >= args_.places) return false;
      // Together with the count, for which the first task would wait otherwise; what lies past it is not used.
      const std::int32_t items = load_ahead(&args_.plan.counts->items);
      load_ahead(task.header, args_.step.tasks + place);
      if (place >= items) return false;
      tasks_ = items * args_.layer.kv_heads;
      left_ = tasks_ - task.number;
      if (args_.tile_m == 0 || (task.header.tile_m == args_.tile_m && task.header.tile_n == args_.tile_n)) return true;
    }
  }

  /// Whether there are more tasks than CTAs, each of which begins with one.
  __device__ __forceinline__ bool goes_round() const { return tasks_ > static_cast<std::int32_t>(gridDim.x); }

  /// Whether so many tasks for each CTA are left.
  __device__ __forceinline__ bool has_plenty(int tasks) const {
    return left_ > tasks * static_cast<std::int32_t>(gridDim.x);
  }

  /// Once between two pops: takes the next task from the queue. As soon before that as hides the latency: a CTA that
  /// claims a task while it has much else to do keeps it from those that have nothing.
  __device__ __forceinline__ void claim() {
    if (first_lane_) next_ = static_cast<std::int32_t>(gridDim.x) + atomicAdd(args_.next_task, 1);
  }

  /// Some time after a claim: the task's header comes to L2 meanwhile.
  __device__ __forceinline__ void prefetch_next() const {
    if (!first_lane_) return;
    const std::int32_t place = next_ / args_.layer.kv_heads;
    if (place < args_.places) prefetch_to_cache(args_.step.tasks + place);
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
  // When the last one was popped:
  std::int32_t tasks_ = 0;  // in all
  std::int32_t left_ = 0;   // that one and those after it
  int turn_ = 0;
};

}  // namespace trunkline::cuda
