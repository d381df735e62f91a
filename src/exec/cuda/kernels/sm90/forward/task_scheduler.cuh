// The scheduler warp: takes tasks from the queue, cuts their tokens into stages, and publishes both to the other warps,
// up to four batches ahead. The prologue of a task has its first batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/task_queue.cuh"
#include "exec/cuda/kernels/sm90/forward/first_task.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/slice_walk.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_writer.cuh"
#include "exec/cuda/kernels/sm90/forward/task_prologue.cuh"
#include "exec/cuda/kernels/sm90/forward/task_queries.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"

namespace trunkline::cuda::sm90 {

/// \tparam S Traits
template <class S>
class TaskScheduler {
  using Queue = TaskQueue<1>;

 public:
  /// \param tma_tiles whether TMA is used
  __device__ __forceinline__ TaskScheduler(const ForwardArgs& args, SharedMemory<S>& shared, bool tma_tiles, int lane)
      : args_(args),
        shared_(shared),
        tma_tiles_(tma_tiles),
        lane_(lane),
        slices_(args, lane),
        writer_(args, tma_tiles, lane) {}

  __device__ __forceinline__ void run() {
    Queue queue(args_, shared_.popped, 0, lane_);
    Queue::Task task;
    bool announced = FirstTask::known(args_);
    if (announced && shared_.batch_tasks[0] == kNoTask) return queue.leave();
    for (; queue.pop(task); entry_ = (entry_ + 1) % kTasks, announced = false) {
      if (!announced) announce(task);
      if (tma_tiles_) pass_batch();
      const bool one_batch = tma_tiles_ && task.header.prologue_ends != 0;
      const bool ends_short = !one_batch && write_stages(task) <= kBatchStages / 2;
      if (!queue.goes_round()) break;
      if (!queue.has_plenty(kBatches)) wait_to_claim(ends_short);
      queue.claim();
    }
    wait_for_batch();
    if (lane_ == 0) shared_.batch_tasks[batch_.slot()] = kNoTask;
    hand_over();
    queue.leave();  // after the last batch, so that consumers do not wait for it
  }

 private:
  // Copies the queries and, if TMA is used, the first batch of a task, by one lane.
  __device__ __forceinline__ void copy_prologue(const Queue::Task& task) const {
    const TaskPrologue& prologue = prologue_at(args_, task.number / args_.layer.kv_heads);
    const std::int32_t queries = task.header.rows.end - task.header.rows.begin;
    const auto info_bytes = static_cast<std::uint32_t>(offsetof(ItemInfo, rows) + sizeof(ItemRow) * queries);
    const auto record_bytes =
        static_cast<std::uint32_t>(tma_tiles_ ? sizeof(StageRecord) * task.header.prologue_records : 0);
    const std::uint32_t full = shared_address(&shared_.batch_full[batch_.slot()]);
    barrier_expect(full, info_bytes + record_bytes);
    if (tma_tiles_) copy_bytes(shared_address(batch()), prologue.records, record_bytes, full);
    copy_bytes(shared_address(&shared_.tasks[entry_]), &prologue.info, info_bytes, full);
  }

  __device__ __forceinline__ StageRecord* batch() const { return shared_.records[batch_.slot()]; }
  __device__ __forceinline__ void wait_for_batch() const {
    barrier_wait(shared_address(&shared_.batch_empty[batch_.slot()]), batch_.parity() ^ 1);
  }
  __device__ __forceinline__ void hand_over() {
    __syncwarp();
    if (lane_ == 0) barrier_arrive(shared_address(&shared_.batch_full[batch_.slot()]));
    pass_batch();
  }
  __device__ __forceinline__ void pass_batch() { batch_.advance(); }

  // Waits until consumers are at the task's last batch, or at the batch before if the last is too short to hide the
  // begin of the next task. A task that is claimed sooner is kept from idle CTAs: 256 tasks of one or two batches took
  // 56 us, not 27, when 31 CTAs had taken four of them each. For the same reason a task of one batch does not count as
  // short.
  __device__ __forceinline__ void wait_to_claim(bool ends_short) const {
    const RingPosition<kBatches> left = batch_.back(ends_short ? 3 : 2);
    barrier_wait(shared_address(&shared_.batch_empty[left.slot()]), left.parity());
  }

  // Publishes a task, with its first batch if the prologue has it.
  __device__ __forceinline__ void announce(const Queue::Task& task) {
    wait_for_batch();  // the task's entry is free then, too
    fence_ordinary_writes();
    __syncwarp();
    if (lane_ != 0) return;
    TaskInfo& info = shared_.tasks[entry_];
    info.number = task.number;
    info.head = task.head;
    shared_.batch_tasks[batch_.slot()] = entry_;
    copy_prologue(task);
    if (tma_tiles_) barrier_arrive(shared_address(&shared_.batch_full[batch_.slot()]));
  }

  // Writes the stages that the prologue does not have. \return number of records of the last batch
  __device__ __forceinline__ int write_stages(const Queue::Task& task) {
    const std::int32_t passed = tma_tiles_ ? kPrologueSlices : 0;
    const std::int32_t place = task.number / args_.layer.kv_heads;
    const QueryHalves halves = halves_of(task.header);
    slices_.prefetch(task.header, passed);
    slices_.begin(task.header, halves, args_.step.rows + task.header.rows.begin, prologue_at(args_, place).min_limit);
    slices_.pass(passed);
    int first = tma_tiles_ ? 0 : kSlices;
    if (!tma_tiles_ && lane_ == 0) batch()[0].kind = StageRecord::kQueries;
    for (;; first = 0) {
      if (first == 0) wait_for_batch();
      if (lane_ == 0) shared_.batch_tasks[batch_.slot()] = entry_;
      const int records = writer_.write(slices_, halves, first, batch());
      hand_over();
      if (slices_.done()) return records;
    }
  }

  const ForwardArgs& args_;
  SharedMemory<S>& shared_;
  bool tma_tiles_;
  int lane_;
  SliceWalk slices_;
  StageWriter<S::kCopiesRuns> writer_;
  RingPosition<kBatches> batch_;
  int entry_ = 0;
};

}  // namespace trunkline::cuda::sm90
