// The producer warps: walk tasks and their tokens, and fill the ring with Q, K, V, K, V, ... as slots come free. All
// walk everything; the stages of K and V are filled by turns: a warp takes some 2,500 clocks for the instructions of
// one.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/task_queue.cuh"
#include "exec/cuda/sm90/cache_maps.hpp"
#include "exec/cuda/sm90/row_copies.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/slice_masks.cuh"
#include "exec/cuda/sm90/slice_walk.cuh"
#include "exec/cuda/sm90/task_queries.cuh"
#include "exec/cuda/sm90/tma.cuh"

namespace trunkline::cuda::sm90 {

class Producer {
  using Queue = TaskQueue<kProducerWarps>;

 public:
  __device__ __forceinline__ Producer(const ForwardArgs& args, const CacheMaps& maps, SharedMemory& shared, int warp,
                                      int lane)
      : args_(args), maps_(maps), shared_(shared), warp_(warp), lane_(lane), walk_(args, lane), copies_(lane) {}

  __device__ __forceinline__ void run() {
    Queue queue(args_, shared_.popped, warp_, lane_);
    Queue::Task task;
    int entry = 0;
    for (; queue.pop(task); entry = (entry + 1) % kTasks) {
      const TaskHeader& header = task.header;
      const ItemRow* const rows = args_.step.rows + header.rows.begin;
      queries_.begin(rows, header.rows.end - header.rows.begin, header.tile_m > kGroupRows ? header.first_half : 0,
                     lane_);
      walk_.begin(header);
      queries_.take_limits();
      if (warp_ == 0) announce(task, rows, entry);
      for (int half = 0; half < queries_.halves(); ++half) fill_queries(rows, task.head, half);
      fill_stages(task.head, entry, queue);
    }
    queue.leave();
    if (warp_ != 0) return;
    wait_for_slot();
    if (lane_ == 0) {
      shared_.stages[place_.slot()].task = entry;
      shared_.tasks[entry].number = -1;
    }
    hand_over();
  }

 private:
  __device__ __forceinline__ void wait_for_slot() const {
    barrier_wait(shared_address(&shared_.empty[place_.slot()]), place_.parity() ^ 1);
  }

  // The slot's row copies and all that was written to shared memory before.
  __device__ __forceinline__ void hand_over() {
    const std::uint32_t full = shared_address(&shared_.full[place_.slot()]);
    barrier_await_copies(full);
    __syncwarp();
    if (lane_ == 0) barrier_arrive(full);
    place_.advance();
  }

  __device__ __forceinline__ std::uint32_t slot_address() const { return shared_address(shared_.slots[place_.slot()]); }

  // Tells the consumers of a task, with its first Q. Its rows are in L1 since their limits were read: registers are
  // short.
  __device__ __forceinline__ void announce(const Queue::Task& task, const ItemRow* rows, int entry) {
    wait_for_slot();
    TaskInfo& info = shared_.tasks[entry];
    for (int query = lane_; query < queries_.count(); query += 32) {
      info.token[query] = rows[query].token;
      info.output[query] = rows[query].output;
    }
    if (lane_ == 0) {
      note_begin(task);
      shared_.stages[place_.slot()].task = entry;
      info.number = task.number;
      info.head = task.head;
      info.queries = queries_.count();
      info.has_partials = task.header.has_partials;
      info.halves = queries_.halves();
      for (int half = 0; half < kGroups; ++half) {
        info.first_query[half] = queries_.first_of(half);
        info.half_rows[half] = queries_.count_of(half) * args_.layer.group_size;
      }
    }
    // Rows after a half's last have its last query, or the first where it has none.
    for (int row = lane_; row < kGroupRows; row += 32) {
      const int query = row / args_.layer.group_size;
#pragma unroll
      for (int half = 0; half < kGroups; ++half) {
        info.row_query[kGroupRows * half + row] =
            static_cast<std::uint8_t>(queries_.first_of(half) + most(least(query, queries_.count_of(half) - 1), 0));
      }
    }
  }

  // Here and not by the consumers, at the task's first copy.
  __device__ __forceinline__ void note_begin(const Queue::Task& task) const {
    if (args_.times == nullptr) return;
    CudaTaskTime& times = args_.times[task.number];
    times.begin_ns = global_time();
    times.item = task.header.item;
    times.head = task.head;
    times.sm = sm_number();
    times.worker = static_cast<std::int32_t>(blockIdx.x);
  }

  // A half's rows of Q; those after its last are zero. The first warp's turn.
  __device__ __forceinline__ void fill_queries(const ItemRow* rows, int head, int half) {
    if (warp_ != 0) return place_.advance();
    wait_for_slot();
    const int group_size = args_.layer.group_size;
#pragma unroll 1
    for (int first = 0; first < kGroupRows; first += kSliceTokens) {
      const int row = first + lane_;
      const int query = row / group_size;
      const bool live = lane_ < kSliceTokens && query < queries_.count_of(half);
      const std::byte* from = static_cast<const std::byte*>(args_.layer.q);
      if (live) {
        const std::int64_t token = rows[queries_.first_of(half) + query].token;
        const int q_head = head * group_size + row - query * group_size;
        from += 2 * (token * args_.layer.q_token + q_head * args_.layer.q_head);
      }
      copies_.copy(from, __ballot_sync(kWholeWarp, live), slot_address() + first * kPanelRowBytes);
    }
    hand_over();
  }

  // At least one stage, also of an item without tokens: consumers need not know of such items.
  __device__ __forceinline__ void fill_stages(int head, int entry, const Queue& queue) {
    Slice slice;
    bool last = false;
    bool more = locate((warp_ + kProducerWarps - 1) % kProducerWarps, true, slice, last);
    if (warp_ == 0) queue.prefetch_next();
    while (more) {
      wait_for_slot();
      const Slice present = slice;
      const bool present_is_last = last;
      const SliceView view = publish(present, present_is_last, entry);
      const RingPlace<kSlots> place = place_;
      place_.advance();
      place_.advance();
      more = locate(kProducerWarps - 1, false, slice, last);  // page ids arrive while this stage's copies are begun
      copy_stage(present, view, place, head);
    }
  }

  // Passes stages of other warps and walks on to the warp's next. \return false at the task's end
  __device__ __forceinline__ bool locate(int skipped, bool first, Slice& slice, bool& last) {
    if (!first && walk_.done()) return false;
    if (skipped > 0) {
      for (int passed = 2 * walk_.skip_stages(skipped); passed > 0; --passed) place_.advance();
      if (walk_.done()) return false;
    }
    slice = walk_.next_stage();
    last = walk_.done();
    return true;
  }

  // Who sees what, and how each slice comes.
  __device__ __forceinline__ SliceView publish(const Slice& slice, bool last, int entry) {
    StageInfo& info = shared_.stages[place_.slot()];
    SliceView view = SliceMasks(args_, queries_, lane_).publish(slice, info);
    if (view.seen != 0xFFFF || maps_.usable == 0) view.flags |= StageFlags::kByRow;
    if (last) view.flags |= StageFlags::kLast;
    if (lane_ < kSlices) info.flags[lane_] = static_cast<std::uint8_t>(view.flags);
    if (lane_ == 0) info.task = entry;
    return view;
  }

  // Begins the copies of a stage's K, then V.
  __device__ __forceinline__ void copy_stage(const Slice& slice, const SliceView& view, RingPlace<kSlots> place,
                                             int head) {
    const unsigned by_row = __ballot_sync(kWholeWarp, lane_ < kSlices && (view.flags & StageFlags::kByRow) != 0);
#pragma unroll 1
    for (int tensor = 0; tensor < 2; ++tensor, place.advance()) {
      const bool k = tensor == 0;
      if (!k) barrier_wait(shared_address(&shared_.empty[place.slot()]), place.parity() ^ 1);
      const std::uint32_t full = shared_address(&shared_.full[place.slot()]);
      const std::uint32_t slot = shared_address(shared_.slots[place.slot()]);
      for (unsigned rest = by_row; rest != 0; rest &= rest - 1) {
        const int from = __ffs(static_cast<int>(rest)) - 1;
        copy_rows(slice, view, from, k ? args_.layer.k : args_.layer.v,
                  k ? args_.layer.k_strides : args_.layer.v_strides, head, slot + from * kSliceTokens * kPanelRowBytes);
      }
      if (by_row != 0) barrier_await_copies(full);
      __syncwarp();  // what all wrote, of the stage and by rows
      if (lane_ == 0) barrier_arrive_expecting(full, (kSlices - __popc(by_row)) * kSliceTokens * kRowBytes);
      __syncwarp();
      if (lane_ < kSlices && (by_row >> lane_ & 1) == 0)
        copy_boxes(slice, k ? maps_.k : maps_.v, head, slot + lane_ * kSliceTokens * kPanelRowBytes, full);
    }
  }

  // By the slice's lane alone.
  __device__ __forceinline__ void copy_boxes(const Slice& slice, const CUtensorMap& map, int head, std::uint32_t to,
                                             std::uint32_t full) const {
    const auto page = static_cast<int>(slice.page);
    const int place = walk_.place_of(slice.position);
    copy_box(to, map, 0, place, head, page, full);
    copy_box(to + kPanelBytes, map, kPanelElements, place, head, page, full);
  }

  // By the whole warp, of the slice that lane `from` knows. Tokens that no query sees are not read: what lies there may
  // be NaN, which a weight of zero does not hide.
  __device__ __forceinline__ void copy_rows(const Slice& slice, const SliceView& view, int from, const void* cache,
                                            const CacheStrides& strides, int head, std::uint32_t to) const {
    const std::uint32_t seen = __shfl_sync(kWholeWarp, view.seen, from);
    const std::int32_t position = __shfl_sync(kWholeWarp, slice.position, from) + lane_;
    const auto ids_begin = __shfl_sync(kWholeWarp, static_cast<long long>(slice.ids_begin), from);
    std::int64_t page = __shfl_sync(kWholeWarp, static_cast<long long>(slice.page), from);
    const std::byte* row = static_cast<const std::byte*>(cache) + 2 * head * strides.head;
    if ((seen >> lane_ & 1) != 0) {
      if (!walk_.whole_slices()) page = page_id(args_.pages, walk_.entry_of(ids_begin, position));
      row += 2 * (page * strides.page + walk_.place_of(position) * strides.token);
    }
    copies_.copy(row, seen, to);
  }

  const ForwardArgs& args_;
  const CacheMaps& maps_;
  SharedMemory& shared_;
  int warp_;
  int lane_;
  SliceWalk walk_;
  TaskQueries queries_;
  RowCopies copies_;
  RingPlace<kSlots> place_;
};

}  // namespace trunkline::cuda::sm90
