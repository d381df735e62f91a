// The walking warp: takes tasks from the queue, cuts their tokens into stages, and tells the other warps of both, ahead
// of them by up to four batches. A task's first batch is laid out already.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/task_queue.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/slice_walk.cuh"
#include "exec/cuda/sm90/stage_record.cuh"
#include "exec/cuda/sm90/stage_writer.cuh"
#include "exec/cuda/sm90/task_opening.cuh"
#include "exec/cuda/sm90/task_queries.cuh"
#include "exec/cuda/sm90/tma.cuh"

namespace trunkline::cuda::sm90 {

class TaskWalker {
  using Queue = TaskQueue<1>;

 public:
  /// \param boxes whether whole slices may come as boxes
  __device__ __forceinline__ TaskWalker(const ForwardArgs& args, SharedMemory& shared, bool boxes, int lane)
      : args_(args), shared_(shared), boxes_(boxes), lane_(lane), slices_(args, lane), writer_(args, boxes, lane) {}

  /// By one thread, before what else a CTA begins with: its first task is known where it takes all, but not how many
  /// queries and stages that has, so all comes that it may have. What lies past the last task is not used.
  static __device__ __forceinline__ void begin_first(const ForwardArgs& args, bool boxes, SharedMemory& shared) {
    const std::int32_t place = static_cast<std::int32_t>(blockIdx.x) / args.layer.kv_heads;
    if (knows_first(args) && place < args.places)
      copy_opening(args, place, kMaxTileQueries, boxes ? kBatchStages : 0, 0, 0, shared);
  }

  __device__ __forceinline__ void run() {
    Queue queue(args_, shared_.popped, 0, lane_);
    Queue::Task task;
    for (bool first = knows_first(args_); queue.pop(task); entry_ = (entry_ + 1) % kTasks, first = false) {
      const bool ends = boxes_ && task.header.opening_ends != 0;
      if (ends) queue.claim();
      open(task, first);
      if (ends) {
        queue.prefetch_next();
      } else {
        write_stages(task, queue);
      }
    }
    queue.leave();
    wait_for_batch();
    if (lane_ == 0) shared_.batch_tasks[batch_.slot()] = kNoTask;
    hand_over();
  }

 private:
  static __device__ __forceinline__ bool knows_first(const ForwardArgs& args) { return args.tile_m == 0; }

  // By one thread. \param records of the first batch that boxes may bring
  static __device__ __forceinline__ void copy_opening(const ForwardArgs& args, std::int32_t place, int queries,
                                                      int records, int entry, int batch, SharedMemory& shared) {
    const TaskOpening& opening = opening_at(args, place);
    const auto info_bytes = static_cast<std::uint32_t>(offsetof(ItemInfo, rows) + sizeof(ItemRow) * queries);
    const auto record_bytes = static_cast<std::uint32_t>(sizeof(StageRecord) * records);
    const std::uint32_t full = shared_address(&shared.batch_full[batch]);
    barrier_expect(full, info_bytes + record_bytes);
    if (records > 0) copy_bytes(shared_address(shared.records[batch]), opening.records, record_bytes, full);
    copy_bytes(shared_address(&shared.tasks[entry]), &opening.info, info_bytes, full);
  }

  __device__ __forceinline__ StageRecord* batch() const { return shared_.records[batch_.slot()]; }
  __device__ __forceinline__ void wait_for_batch() const {
    barrier_wait(shared_address(&shared_.batch_empty[batch_.slot()]), batch_.parity() ^ 1);
  }
  __device__ __forceinline__ void hand_over() {
    __syncwarp();
    if (lane_ == 0) barrier_arrive(shared_address(&shared_.batch_full[batch_.slot()]));
    batch_.advance();
  }

  // Announces a task with its first batch.
  __device__ __forceinline__ void open(const Queue::Task& task, bool first) {
    wait_for_batch();  // its task's entry is free, too
    fence_ordinary_writes();
    __syncwarp();
    if (lane_ == 0) {
      TaskInfo& info = shared_.tasks[entry_];
      info.number = task.number;
      info.head = task.head;
      shared_.batch_tasks[batch_.slot()] = entry_;
      if (!first) {
        copy_opening(args_, task.number / args_.layer.kv_heads, task.header.rows.end - task.header.rows.begin,
                     boxes_ ? task.header.opening_records : 0, entry_, batch_.slot(), shared_);
      }
      if (!boxes_) batch()[0].kind = StageRecord::kQueries;
    }
    if (boxes_) hand_over();
  }

  // Those that its opening has not. The next task is claimed with the last batch.
  __device__ __forceinline__ void write_stages(const Queue::Task& task, Queue& queue) {
    const std::int32_t passed = boxes_ ? kOpeningSlices : 0;
    const std::int32_t place = task.number / args_.layer.kv_heads;
    const QueryHalves halves = halves_of(task.header);
    slices_.prefetch(task.header, passed);
    slices_.begin(task.header, halves, args_.step.rows + task.header.rows.begin, opening_at(args_, place).least_limit);
    slices_.pass(passed);
    int first = boxes_ ? 0 : kSlices;
    do {
      if (first == 0) wait_for_batch();
      if (lane_ == 0) shared_.batch_tasks[batch_.slot()] = entry_;
      writer_.write(slices_, halves, first, batch());
      if (slices_.done()) queue.claim();
      hand_over();
      first = 0;
    } while (!slices_.done());
  }

  const ForwardArgs& args_;
  SharedMemory& shared_;
  bool boxes_;
  int lane_;
  SliceWalk slices_;
  StageWriter writer_;
  RingPlace<kBatches> batch_;
  int entry_ = 0;
};

}  // namespace trunkline::cuda::sm90
