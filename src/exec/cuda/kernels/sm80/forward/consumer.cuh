// The consumer warps: take stages from the ring, attend, write outputs.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/kernels/common/arrivals.cuh"
#include "exec/cuda/kernels/common/isolated_rows.cuh"
#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/soft_cap.cuh"
#include "exec/cuda/kernels/common/warp_rows.cuh"
#include "exec/cuda/kernels/sm80/forward/epilogue.cuh"
#include "exec/cuda/kernels/sm80/forward/shared_memory.cuh"

namespace trunkline::cuda::sm80 {

template <class Element, class Size>
class Consumer {
  static constexpr int kDim = Size::kDim;
  using Isolated = IsolatedRows<Element, kDim, 2, true, 1>;
  static constexpr int kConsumers = 32 * kConsumerWarps;
  // Maximum of a stage's tokens that one warp computes: reached by the tile whose rows need all warps.
  static constexpr int kMaxTokens = stage_tokens(kDim);

 public:
  __device__ __forceinline__ Consumer(const ForwardArgs& args, SharedMemory<Size>& shared, unsigned thread)
      : args_(args), shared_(shared), rows_(thread, fabsf(args.layer.scale_log2)) {}

  __device__ __forceinline__ void run() {
    for (;;) {
      wait_for_slot();
      const TaskInfo& task = shared_.tasks[shared_.stages[position_.slot()].task];
      if (task.rows == 0) return isolate_tasks();
      begin(task);
      while (!take_stage()) {
      }
      write(position_.slot_before());
    }
  }

 private:
  __device__ __forceinline__ void wait_for_slot() const {
    barrier_wait(shared_address(&shared_.full[position_.slot()]), position_.parity());
  }

  // All lanes arrive, each after its own reads. An arrival of one lane after __syncwarp() is slower (4 % of a launch of
  // tiles of 64 rows on an H200), and compute-sanitizer's racecheck does not follow it.
  __device__ __forceinline__ void release(int slot) const { barrier_arrive(shared_address(&shared_.empty[slot])); }

  __device__ __forceinline__ std::uint32_t slot_address(int slot) const { return shared_address(shared_.slots[slot]); }
  // Returns which group of kWarpRows rows of the tile the warp holds. Several warps may hold the same group.
  __device__ __forceinline__ int row_group(const TaskInfo& task) const {
    return rows_.warp() & ((1 << task.row_shift) - 1);
  }

  __device__ __forceinline__ void note_end(const TaskInfo& task) const {
    if (args_.times == nullptr || rows_.thread != 0) return;
    args_.times[task.number].end_ns = global_time();
  }

  __device__ __forceinline__ void begin(const TaskInfo& task) {
    const int first = row_group(task) * kWarpRows;
    const int tile_rows = kWarpRows << task.row_shift;
    for (int loaded = 0; loaded < tile_rows; loaded += Size::kTokens) {
      if (loaded > 0) wait_for_slot();
      if (first >= loaded && first < loaded + Size::kTokens)
        rows_.load_queries(slot_address(position_.slot()), first - loaded, args_.layer.scale_log2 < 0);
      release(position_.slot());
      position_.advance();
    }
    rows_.clear();
  }

  // Attends to a stage. \return whether it is the task's last, whose slots are not released yet
  __device__ __forceinline__ bool take_stage() {
    wait_for_slot();
    rows_.thread = optimization_barrier(rows_.thread);
    const WarpShare share = shared_.stages[position_.slot()].shares[rows_.warp()];
    switch (share.count()) {
      case 0:
        if (!share.last()) release(position_.slot());
        position_.advance();
        wait_for_slot();
        break;
      case 1: attend<16>(share); break;
      case 2: attend<min(32, kMaxTokens)>(share); break;
      default: attend<kMaxTokens>(share); break;
    }
    if (!share.last()) release(position_.slot());
    position_.advance();
    return share.last();
  }

  // Attends to kTokens tokens; the ring's position moves from the stage's K to its V.
  template <int kTokens>
  __device__ __forceinline__ void attend(const WarpShare& share) {
    const int k_slot = position_.slot();
    std::uint32_t weights[kTokens / 16][4];
    {
      float logits[kTokens / 8][4];
      rows_.template multiply_keys<kTokens>(slot_address(k_slot), share.first(), logits);
      if (has_soft_cap(args_.layer)) cap_logits(logits, args_.layer.cap_factor);
      if (share.masked()) mask<kTokens>(k_slot, share.first(), logits);
      if (!share.last()) release(k_slot);
      rows_.template exp_scores<kTokens>(logits, weights);
    }
    rows_.thread = optimization_barrier(rows_.thread);
    position_.advance();
    wait_for_slot();
    rows_.template multiply_values<kTokens>(slot_address(position_.slot()), share.first(), weights);
  }

  template <int kTokens>
  __device__ __forceinline__ void mask(int k_slot, int first, float (&logits)[kTokens / 8][4]) const {
    const StageInfo<Size::kTokens>& info = shared_.stages[k_slot];
    const TaskInfo& task = shared_.tasks[info.task];
    const std::uint8_t* row_query = task.row_query + row_group(task) * kWarpRows + rows_.lane() / 4;
    const int query[2] = {row_query[0], row_query[8]};
    rows_.template mask<kTokens>(info.visible + first, query, logits);
  }

  // Writes the task's O and LSE, then releases its last two slots. The task's entry stays valid until this warp
  // releases slots of later tasks (Sizes::kTasks).
  __device__ __forceinline__ void write(int v_slot) {
    const int k_slot = v_slot == 0 ? Size::kSlots - 1 : v_slot - 1;
    TaskInfo& task = shared_.tasks[shared_.stages[k_slot].task];
    Epilogue<Element, Size>(args_, shared_, task, k_slot, v_slot, rows_.thread).run(rows_);
    release(k_slot);
    release(v_slot);
    if (args_.arrived != nullptr && task.has_partials != 0) {
      named_barrier(kConsumerBarrier, kConsumers);  // all partials of the task are written
      if (shared_.last_nan_task != task.number)
        merge_arrivals<Element, kDim, true, kConsumerWarps>(args_, task, kConsumerBarrier);
    }
    note_end(task);
  }

  // Recomputes tasks with a NaN among their outputs, query by query, and counts their partials as arrived. Runs after
  // all other tasks: inside the loop over tasks this code would take registers from the loop over stages.
  __device__ __forceinline__ void isolate_tasks() {
    named_barrier(kConsumerBarrier, kConsumers);  // last_nan_task is final
    // Broadcast, so that the compiler knows that they are uniform: else each shuffle in the loops is a call.
    const auto thread = static_cast<int>(threadIdx.x);
    const int warp = __shfl_sync(kWholeWarp, thread / 32, 0);
    const int group_size = args_.layer.group_size;
#pragma unroll 1
    for (int task = __shfl_sync(kWholeWarp, shared_.last_nan_task, 0); task >= 0;
         task = __shfl_sync(kWholeWarp, args_.nan_tasks[task], 0)) {
      const std::int32_t place = task / args_.layer.kv_heads;
      const std::int32_t head = task - place * args_.layer.kv_heads;
      const Range rows = args_.step.tasks[place].rows;
      const int queries = __shfl_sync(kWholeWarp, rows.end - rows.begin, 0);
#pragma unroll 1
      for (int query = warp; query < queries; query += kConsumerWarps) {
#pragma unroll 1
        for (int first = 0; first < group_size; first += Isolated::kMaxRows) {
          const int count = min(group_size - first, Isolated::kMaxRows);
          Isolated(args_, task, query, head * group_size + first, count, thread % 32).run(0, kDim);
        }
      }
      if (args_.arrived != nullptr) merge_isolated(head, rows);
    }
  }

  // Merges an isolated task. No other task is active by then, so that entry 0 can describe this one.
  __device__ __forceinline__ void merge_isolated(std::int32_t head, const Range& rows) {
    TaskInfo& task = shared_.tasks[0];
    named_barrier(kConsumerBarrier, kConsumers);
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread == 0) {
      task.head = head;
      task.queries = rows.end - rows.begin;
    }
    if (thread < rows.end - rows.begin) {
      const ItemRow& row = args_.step.rows[rows.begin + thread];
      task.token[thread] = row.token;
      task.output[thread] = row.output;
    }
    named_barrier(kConsumerBarrier, kConsumers);  // the entry and all partials of the task are written
    merge_arrivals<Element, kDim, true, kConsumerWarps>(args_, task, kConsumerBarrier);
  }

  const ForwardArgs& args_;
  SharedMemory<Size>& shared_;
  WarpRows<Element, kDim> rows_;
  RingPosition<Size::kSlots> position_;
};

}  // namespace trunkline::cuda::sm80
