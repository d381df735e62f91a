// The producer warps: walk tasks and their tokens, and fill the ring with Q, K, V, K, V, ... as slots come free. All
// walk everything; the stages of K and V are filled by turns.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/task_queue.cuh"
#include "exec/cuda/common/token_walk.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/stage_masks.cuh"
#include "exec/cuda/sm90/wgmma.cuh"

namespace trunkline::cuda::sm90 {

class Producer {
  using Queue = TaskQueue<kProducerWarps>;
  static constexpr int kRowsOfLane = kMaxTileQueries / 32;  // queries of an item, by lane

 public:
  __device__ __forceinline__ Producer(const ForwardArgs& args, SharedMemory& shared, int warp, int lane)
      : args_(args), shared_(shared), warp_(warp), lane_(lane), walk_(args, lane) {}

  __device__ __forceinline__ void run() {
    Queue queue(args_, shared_.popped, warp_, lane_);
    Queue::Task task;
    int entry = 0;
    for (; queue.pop(task); entry = (entry + 1) % kTasks) {
      read_rows(task.header.rows);
      walk_.begin(task.header);
      read_limits();
      masks_ = StageMasks(limits_.count, task.header.tile_m > kGroupRows ? task.header.first_half : 0);
      if (warp_ == 0) announce(task, entry);
      for (int half = 0; half < masks_.halves(); ++half) fill_queries(task.head, entry, half);
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
  struct Stage {
    LocatedToken<2> tokens[kParts];
    int number = -1;
    bool last;
  };

  __device__ __forceinline__ void wait_for_slot() const {
    barrier_wait(shared_address(&shared_.empty[place_.slot()]), place_.parity() ^ 1);
  }

  // The slot's copies and all that was written to shared memory before.
  __device__ __forceinline__ void hand_over() {
    const std::uint32_t full = shared_address(&shared_.full[place_.slot()]);
    barrier_arrive_after_copies(full);
    __syncwarp();
    if (lane_ == 0) barrier_arrive(full);
    place_.advance();
  }

  // Lane i has the queries i, i + 32, ... of the item.
  __device__ __forceinline__ void read_rows(const Range& rows) {
    limits_.count = rows.end - rows.begin;
#pragma unroll
    for (int i = 0; i < kRowsOfLane; ++i) {
      item_rows_[i] = {0, INT32_MAX, kDirect, 0};
      const int query = lane_ + 32 * i;
      if (query < limits_.count) load_ahead(item_rows_[i], args_.step.rows + rows.begin + query);
    }
  }

  __device__ __forceinline__ void read_limits() {
    std::int32_t smallest = INT32_MAX;
#pragma unroll
    for (int i = 0; i < kRowsOfLane; ++i) {
      limits_.limit[i] = item_rows_[i].limit;
      smallest = least(smallest, limits_.limit[i]);
    }
    limits_.least = __reduce_min_sync(kWholeWarp, smallest);
  }

  // Tells the consumers of a task, with its first Q.
  __device__ __forceinline__ void announce(const Queue::Task& task, int entry) {
    wait_for_slot();
    TaskInfo& info = shared_.tasks[entry];
#pragma unroll
    for (int i = 0; i < kRowsOfLane; ++i) {
      const int query = lane_ + 32 * i;
      if (query >= limits_.count) continue;
      info.token[query] = item_rows_[i].token;
      info.output[query] = item_rows_[i].output;
    }
    if (lane_ == 0) {
      note_begin(task);
      shared_.stages[place_.slot()].task = entry;
      info.number = task.number;
      info.head = task.head;
      info.queries = limits_.count;
      info.has_partials = task.header.has_partials;
      info.halves = masks_.halves();
      for (int half = 0; half < kGroups; ++half) {
        info.first_query[half] = masks_.first_query(half);
        info.half_rows[half] = masks_.queries(half) * args_.layer.group_size;
      }
    }
    number_rows(info);
    __syncwarp();
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

  // Rows after a half's last have its last query, or the first where it has none.
  __device__ __forceinline__ void number_rows(TaskInfo& info) const {
#pragma unroll
    for (int first = 0; first < kGroups * kGroupRows; first += 32) {
      const int half = first / kGroupRows;
      const int query = (first % kGroupRows + lane_) / args_.layer.group_size;
      info.row_query[first + lane_] =
          static_cast<std::uint8_t>(masks_.first_query(half) + most(least(query, masks_.queries(half) - 1), 0));
    }
  }

  // A half's rows of Q; those after its last are zero. The first warp's turn.
  __device__ __forceinline__ void fill_queries(int head, int entry, int half) {
    if (warp_ != 0) return place_.advance();
    if (half > 0) wait_for_slot();
    const TaskInfo& info = shared_.tasks[entry];
    const int group_size = args_.layer.group_size;
    const std::byte* q = static_cast<const std::byte*>(args_.layer.q);
    std::uint32_t present[kParts];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int row = 32 * part + lane_;
      const std::byte* from = q;
      if (row < info.half_rows[half]) {
        const int query = info.row_query[kGroupRows * half + row];
        const int q_head = head * group_size + row - (query - info.first_query[half]) * group_size;
        from += 2 * (info.token[query] * args_.layer.q_token + q_head * args_.layer.q_head);
      }
      shared_.k_rows[warp_][row] = from;
      present[part] = __ballot_sync(kWholeWarp, row < info.half_rows[half]);
    }
    __syncwarp();
    fetch(shared_.k_rows[warp_], present);
    hand_over();
  }

  // At least one stage, also of an item without tokens: consumers need not know of such items.
  __device__ __forceinline__ void fill_stages(int head, int entry, const Queue& queue) {
    Stage stage;
    int passed = 0;
    bool prefetched = false;
    bool more = locate(stage, passed);
    while (more) {
      pass(passed);
      wait_for_slot();
      std::uint32_t present[kParts];
      publish(stage, head, entry, present);
      more = locate(stage, passed);  // its page ids arrive while this stage's copies are begun
      fetch(shared_.k_rows[warp_], present);
      hand_over();
      wait_for_slot();
      fetch(shared_.v_rows[warp_], present);
      hand_over();
      if (!prefetched) queue.prefetch_next();
      prefetched = true;
    }
    pass(passed);
  }

  // Walks on to the warp's next stage. \param passed stages of other warps on the way
  // \return false at the task's end
  __device__ __forceinline__ bool locate(Stage& stage, int& passed) {
    for (passed = 0;; ++passed) {
      if (stage.number >= 0 && walk_.done()) return false;
      ++stage.number;
      if ((stage.number + 1) % kProducerWarps == warp_) break;
      walk_.skip(kStageTokens);
    }
#pragma unroll
    for (LocatedToken<2>& token : stage.tokens) walk_.next(limits_, token);
    stage.last = walk_.done();
    return true;
  }

  __device__ __forceinline__ void pass(int stages) {
    for (int slot = 0; slot < 2 * stages; ++slot) place_.advance();
  }

  // Writes where the stage's rows are and who sees them. Tokens that no query sees are not read: what lies there may be
  // NaN, which a weight of zero does not hide.
  __device__ __forceinline__ void publish(const Stage& stage, int head, int entry, std::uint32_t (&present)[kParts]) {
    StageInfo& info = shared_.stages[place_.slot()];
    QuerySet<2> visible[kParts];
    const std::byte* k = static_cast<const std::byte*>(args_.layer.k) + 2 * head * args_.layer.k_strides.head;
    const std::byte* v = static_cast<const std::byte*>(args_.layer.v) + 2 * head * args_.layer.v_strides.head;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const LocatedToken<2>& token = stage.tokens[part];
      const int at = 32 * part + lane_;
      visible[part] = masks_.by_half(token.mask, token.reached);
      const bool seen = (visible[part].words[0] | visible[part].words[1]) != 0;
      shared_.k_rows[warp_][at] = seen ? row_address(k, args_.layer.k_strides, token) : k;
      shared_.v_rows[warp_][at] = seen ? row_address(v, args_.layer.v_strides, token) : v;
#pragma unroll
      for (int half = 0; half < kGroups; ++half) info.visible[half][at] = visible[part].words[half];
      present[part] = __ballot_sync(kWholeWarp, seen);
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const GroupShare share = masks_.share(visible, group, stage.number, stage.last);
      if (lane_ == 0) info.shares[group] = share;
    }
    if (lane_ == 0) info.task = entry;
    __syncwarp();
  }

  static __device__ __forceinline__ const std::byte* row_address(const std::byte* head, const CacheStrides& strides,
                                                                 const LocatedToken<2>& token) {
    return head + 2 * (token.page * strides.page + token.place * strides.token);
  }

  // Copies rows into the present slot; zeros where a row is not present.
  __device__ __forceinline__ void fetch(const std::byte* const* rows, const std::uint32_t (&present)[kParts]) const {
    if (present[0] == ~0u && present[1] == ~0u) {
      fetch_rows<true>(rows, present);
    } else {
      fetch_rows<false>(rows, present);
    }
  }

  template <bool kWhole>
  __device__ __forceinline__ void fetch_rows(const std::byte* const* rows,
                                             const std::uint32_t (&present)[kParts]) const {
    constexpr int kChunks = kRowBytes / 16;
    constexpr int kRowsAtOnce = 32 / kChunks;  // by one instruction of the warp
    const int chunk = lane_ % kChunks;
    const std::uint32_t slot = shared_address(shared_.slots[place_.slot()]);
#pragma unroll 1
    for (int first = 0; first < kStageTokens; first += 16) {
      const std::uint32_t seen = first < 32 ? present[0] : present[1];
      // Addresses first: copies are begun in order, and each would wait for its own.
      const std::byte* from[16 / kRowsAtOnce];
#pragma unroll
      for (int i = 0; i < 16 / kRowsAtOnce; ++i)
        from[i] = rows[first + i * kRowsAtOnce + lane_ / kChunks] + 16 * chunk;
#pragma unroll
      for (int i = 0; i < 16 / kRowsAtOnce; ++i) {
        const int offset = i * kRowsAtOnce + lane_ / kChunks;
        const std::uint32_t to = slot + static_cast<std::uint32_t>(first * kPanelRowBytes) + chunk_offset(offset, chunk);
        if constexpr (kWhole) {
          copy_async(to, from[i]);
        } else {
          copy_async_or_zero(to, from[i], ((seen >> ((first + offset) % 32)) & 1) != 0);
        }
      }
    }
  }

  const ForwardArgs& args_;
  SharedMemory& shared_;
  int warp_;
  int lane_;
  TokenWalk<2> walk_;
  ItemRow item_rows_[kRowsOfLane];
  QueryLimits<2> limits_;
  StageMasks masks_;
  RingPlace<kSlots> place_;
};

}  // namespace trunkline::cuda::sm90
