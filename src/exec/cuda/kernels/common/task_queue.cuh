// The queue from which all CTAs of a launch take (item, KV head) tasks.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda {

/// Gives all producer warps of a CTA the same tasks. Task t is KV head t % Hkv of item t / Hkv of the schedule: the
/// heads of an item run together, so that pages whose heads are neighbours in memory are read as a whole.
template <int kProducerWarps>
class TaskQueue {
  static constexpr int kProducerBarrier = 2;

 public:
  struct Task {
    TaskHeader header;
    std::int32_t head;
    std::int32_t number;  // index in the schedule * Hkv + head
  };

  /// \param popped in shared memory \param warp index of this producer warp
  __device__ __forceinline__ TaskQueue(const ForwardArgs& args, std::int32_t (&popped)[2], int warp, int lane)
      : args_(args),
        popped_(popped),
        first_lane_(warp == 0 && lane == 0),
        next_(static_cast<std::int32_t>(blockIdx.x)) {}

  /// Takes the first task, then each claimed task. \return false if there are no more
  __device__ __forceinline__ bool pop(Task& task) {
    for (;; claim()) {
      // Two entries take turns: a warp that waits here for the second has read the first.
      turn_ ^= 1;
      if (first_lane_) popped_[turn_] = next_;
      named_barrier(kProducerBarrier, 32 * kProducerWarps);
      task.number = popped_[turn_];
      const std::int32_t place = task.number / args_.layer.kv_heads;
      task.head = task.number - place * args_.layer.kv_heads;
      if (place >= args_.places) return false;
      // Read together with the count, so that the first task waits once; headers behind the last item are not used.
      const std::int32_t items = load_ahead(&args_.plan.counts->items);
      load_ahead(task.header, args_.step.tasks + place);
      if (place >= items) return false;
      tasks_ = items * args_.layer.kv_heads;
      left_ = tasks_ - task.number;
      if (args_.tile_m == 0 || (task.header.tile_m == args_.tile_m && task.header.tile_n == args_.tile_n)) return true;
    }
  }

  /// Whether there are more tasks than CTAs, so that tasks are taken from the queue.
  __device__ __forceinline__ bool goes_round() const { return tasks_ > static_cast<std::int32_t>(gridDim.x); }

  /// Whether more than `tasks` tasks a CTA are left.
  __device__ __forceinline__ bool has_plenty(int tasks) const {
    return left_ > tasks * static_cast<std::int32_t>(gridDim.x);
  }

  /// Takes the next task from the queue, once between two pops. It should be called just early enough to hide the
  /// latency: a task that a busy CTA claims too early is kept from idle CTAs.
  __device__ __forceinline__ void claim() {
    if (first_lane_) next_ = static_cast<std::int32_t>(gridDim.x) + atomicAdd(args_.next_task, 1);
  }

  /// Prefetches the header of the claimed task to L2, some time after the claim.
  __device__ __forceinline__ void prefetch_next() const {
    if (!first_lane_) return;
    const std::int32_t place = next_ / args_.layer.kv_heads;
    if (place < args_.places) prefetch_to_cache(args_.step.tasks + place);
  }

  /// Leaves the queue, once a CTA after its last pop: the last CTA resets the queue for the next launch.
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
  bool first_lane_;    // lane 0 of the first producer warp, which takes from the queue
  std::int32_t next_;  // number of its next task
  // State at the last pop:
  std::int32_t tasks_ = 0;  // all tasks
  std::int32_t left_ = 0;   // the popped task and those after it
  int turn_ = 0;
};

}  // namespace trunkline::cuda
