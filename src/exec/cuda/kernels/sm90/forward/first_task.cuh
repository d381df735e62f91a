// The first task of a CTA, which follows from the CTA's number: all threads copy its prologue while the barriers are
// initialised, as they are idle then. From the kernel's start this takes 1 us, where a bulk copy takes 2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/task_prologue.cuh"

namespace trunkline::cuda::sm90 {

class FirstTask {
 public:
  /// \param tma_tiles whether TMA is used; else the scheduler writes the stages
  __device__ __forceinline__ FirstTask(const ForwardArgs& args, bool tma_tiles)
      : args_(args),
        tma_tiles_(tma_tiles),
        number_(static_cast<std::int32_t>(blockIdx.x)),
        place_(number_ / args.layer.kv_heads) {}

  /// Whether the first task is known: a kernel of one tile skips tasks of other tiles.
  static __device__ __forceinline__ bool known(const ForwardArgs& args) { return args.tile_m == 0; }

  /// Issues the copies, by all threads. The numbers of queries and stages are not known yet, so the maximum is copied;
  /// data behind the last task is not used.
  template <class S>
  __device__ __forceinline__ void begin_copies(SharedMemory<S>& shared) const {
    static_assert(kInfoWords + kRecordWords <= S::kThreads);
    if (!known(args_) || place_ >= args_.places) return;
    const auto word = static_cast<int>(threadIdx.x);
    const TaskPrologue& prologue = prologue_at(args_, place_);
    if (word < kInfoWords) {
      copy_word(&shared.tasks[0], &prologue.info, word);
    } else if (word < kInfoWords + kRecordWords) {
      copy_word(shared.records[0], prologue.records, word - kInfoWords);
    }
  }

  /// Publishes the task, by one thread, which has initialised the mbarriers of batches.
  template <class S>
  __device__ __forceinline__ void announce(SharedMemory<S>& shared) const {
    if (!known(args_)) return;
    // Prefetched together with the count: else the header would wait for it.
    if (place_ < args_.places) prefetch_to_cache(args_.step.tasks + place_);
    const bool some = place_ < args_.places && place_ < load_ahead(&args_.plan.counts->items);
    TaskInfo& info = shared.tasks[0];
    info.number = number_;
    info.head = number_ - place_ * args_.layer.kv_heads;
    shared.batch_tasks[0] = some ? 0 : kNoTask;
    if (tma_tiles_ || !some) barrier_arrive(shared_address(&shared.batch_full[0]));
  }

 private:
  static constexpr int kInfoWords = static_cast<int>(sizeof(ItemInfo) / 16);
  static constexpr int kRecordWords = static_cast<int>(sizeof(StageRecord) * kBatchStages / 16);

  static __device__ __forceinline__ void copy_word(void* to, const void* from, int word) {
    copy_async(shared_address(static_cast<std::byte*>(to) + 16 * word),
               static_cast<const std::byte*>(from) + 16 * word);
  }

  const ForwardArgs& args_;
  bool tma_tiles_;
  std::int32_t number_;
  std::int32_t place_;
};

}  // namespace trunkline::cuda::sm90
