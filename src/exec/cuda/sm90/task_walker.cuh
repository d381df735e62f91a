// The walking warp: takes tasks from the queue, cuts their tokens into stages, and tells the other warps of both, ahead
// of them by up to four batches.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/page_places.cuh"
#include "exec/cuda/common/task_queue.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/slice_walk.cuh"
#include "exec/cuda/sm90/stage_record.cuh"
#include "exec/cuda/sm90/task_queries.cuh"

namespace trunkline::cuda::sm90 {

class TaskWalker {
  using Queue = TaskQueue<1>;

 public:
  /// \param boxes whether whole slices may come as boxes
  __device__ __forceinline__ TaskWalker(const ForwardArgs& args, SharedMemory& shared, bool boxes, int lane)
      : args_(args), shared_(shared), boxes_(boxes), lane_(lane), slices_(args, lane), places_(args.pages.page_size) {}

  __device__ __forceinline__ void run() {
    Queue queue(args_, shared_.popped, 0, lane_);
    Queue::Task task;
    for (; queue.pop(task); entry_ = (entry_ + 1) % kTasks) {
      const bool ends_soon = fills_no_batch(task.header);
      if (ends_soon) queue.claim();
      begin(task);
      if (ends_soon) queue.prefetch_next();
      write_stages(queue, ends_soon);
    }
    queue.leave();
    wait_for_batch();
    if (lane_ == 0) batch()[0].kind = StageRecord::kEnd;
    hand_over();
  }

 private:
  __device__ __forceinline__ StageRecord* batch() const { return shared_.records[batch_.slot()]; }
  __device__ __forceinline__ void wait_for_batch() const {
    barrier_wait(shared_address(&shared_.batch_empty[batch_.slot()]), batch_.parity() ^ 1);
  }
  __device__ __forceinline__ void hand_over() {
    __syncwarp();
    if (lane_ == 0) barrier_arrive(shared_address(&shared_.batch_full[batch_.slot()]));
    batch_.advance();
  }

  // Writes the task's info and the first record of its first batch, which is of Q.
  __device__ __forceinline__ void begin(const Queue::Task& task) {
    const TaskHeader& header = task.header;
    const ItemRow* const rows = args_.step.rows + header.rows.begin;
    halves_ = QueryHalves(header.rows.end - header.rows.begin, header.tile_m > kGroupRows ? header.first_half : 0);
    slices_.prefetch(header);
    // What follows until they are used hides their latency.
    const bool some = lane_ < halves_.count();
    ItemRow row{};
    if (some) load_ahead(row, rows + lane_);
    wait_for_batch();  // its task's entry is free, too
    TaskInfo& info = shared_.tasks[entry_];
    announce(task, info);
    std::int32_t least_of_lane = INT32_MAX;
    for (int query = lane_; query < halves_.count(); query += 32) {
      if (query != lane_) load_ahead(row, rows + query);
      info.token[query] = row.token;
      info.output[query] = row.output;
      info.limit[query] = row.limit;
      least_of_lane = least(least_of_lane, row.limit);
    }
    const std::int32_t least_of_all = __reduce_min_sync(kWholeWarp, least_of_lane);
    __syncwarp();  // limits are written
    slices_.begin(header, halves_, info.limit, least_of_all);
  }

  __device__ __forceinline__ void announce(const Queue::Task& task, TaskInfo& info) const {
    if (lane_ == 0) {
      StageRecord& record = batch()[0];
      record.kind = StageRecord::kQueries;
      record.task = entry_;
      info.number = task.number;
      info.item = task.header.item;
      info.head = task.head;
      info.queries = halves_.count();
      info.halves = halves_.halves();
      info.has_partials = task.header.has_partials;
#pragma unroll
      for (int half = 0; half < kGroups; ++half) {
        info.first_query[half] = halves_.first_of(half);
        info.half_rows[half] = halves_.count_of(half) * args_.layer.group_size;
      }
    }
    // Rows after a half's last have its last query, or the first where it has none.
    for (int row = lane_; row < kGroupRows; row += 32) {
      const int query = row / args_.layer.group_size;
#pragma unroll
      for (int half = 0; half < kGroups; ++half) {
        info.row_query[kGroupRows * half + row] =
            static_cast<std::uint8_t>(halves_.first_of(half) + most(least(query, halves_.count_of(half) - 1), 0));
      }
    }
  }

  // For certain.
  static __device__ __forceinline__ bool fills_no_batch(const TaskHeader& header) {
    return header.spans.end - header.spans.begin <= 1 &&
           header.first.end - header.first.begin < kBatchStages * kStageTokens;
  }

  // At least one stage, also of an item without tokens: consumers need not know of such items. The next task is claimed
  // with the last batch, unless it is already.
  __device__ __forceinline__ void write_stages(Queue& queue, bool claimed) {
    int first = kSlices;
    do {
      if (first == 0) wait_for_batch();
      Slice slice;
      const int filled = slices_.take(first, slice);
      if (!claimed && slices_.done()) queue.claim();
      const int records = most((filled + kSlices - 1) / kSlices, first / kSlices + 1);
      if (lane_ >= first && lane_ < kSlices * records) {
        std::uint32_t flags = write_slice(slice, batch()[lane_ / kSlices], lane_ % kSlices);
        if (lane_ / kSlices == records - 1) {
          flags |= StageFlags::kBatchEnd;
          if (slices_.done()) flags |= StageFlags::kLast;
        }
        batch()[lane_ / kSlices].flags[lane_ % kSlices] = static_cast<std::uint8_t>(flags);
      }
      hand_over();
      first = 0;
    } while (!slices_.done());
  }

  // By its lane alone. \return its flags
  __device__ __forceinline__ std::uint32_t write_slice(const Slice& slice, StageRecord& record, int number) const {
    const bool limited = slice.mask_stride != 0 || slice.position + slice.count > slice.bound;
    const bool by_token = slice.count > 0 && (limited || slice.count < kSliceTokens);
    SliceRecord& written = record.slices[number];
    written.page = slice.ids_begin;
    if (holds_whole_slices(args_.pages.page_size) && slice.count > 0) {
      written.page = page_id(args_.pages, slice.ids_begin + places_.page_of(slice.position));
      written.place = places_.place_of(slice.position);
    }
    written.position = slice.position;
    written.mask = slice.mask;
    written.mask_stride = static_cast<std::int16_t>(slice.mask_stride);
    written.count = static_cast<std::int8_t>(slice.count);
    written.limited = limited ? 1 : 0;
    record.kind = StageRecord::kStage;
    record.task = entry_;
    std::uint32_t flags = by_token ? StageFlags::kByToken : 0;
    if (by_token || !boxes_ || slice.visible.empty()) flags |= StageFlags::kByRow;
#pragma unroll
    for (int half = 0; half < kGroups; ++half) {
      const std::uint64_t visible = slice.visible.words[half];
      record.visible[half][0][number] = static_cast<std::uint32_t>(visible);
      record.visible[half][1][number] = static_cast<std::uint32_t>(visible >> 32);
      if (visible != 0) flags |= StageFlags::kSeen << half;
      if (by_token || visible != halves_.every(half)) flags |= StageFlags::kMasked << half;
    }
    return flags;
  }

  const ForwardArgs& args_;
  SharedMemory& shared_;
  bool boxes_;
  int lane_;
  SliceWalk slices_;
  PagePlaces places_;
  QueryHalves halves_;
  RingPlace<kBatches> batch_;
  int entry_ = 0;
};

}  // namespace trunkline::cuda::sm90
