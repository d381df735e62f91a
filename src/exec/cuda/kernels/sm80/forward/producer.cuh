// The producer warps: iterate over tasks and their tokens, and fill the ring with Q, K, V, K, V, ... as slots become
// free. All of them iterate over all tokens; they take turns at filling Q and the stages of K and V.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/task_queue.cuh"
#include "exec/cuda/kernels/sm80/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm80/forward/token_walk.cuh"
#include "exec/cuda/kernels/sm80/forward/warp_share.cuh"

namespace trunkline::cuda::sm80 {

template <class Size>
class Producer {
  static constexpr int kDim = Size::kDim;
  using Queue = TaskQueue<kProducerWarps>;
  static constexpr int kGroups = Size::kTokens / 32;  // groups of 32 tokens, one token a lane

 public:
  __device__ __forceinline__ Producer(const ForwardArgs& args, SharedMemory<Size>& shared, int warp, int lane)
      : args_(args), shared_(shared), warp_(warp), lane_(lane), walk_(args, lane) {}

  __device__ __forceinline__ void run() {
    Queue queue(args_, shared_.popped, warp_, lane_);
    typename Queue::Task task;
    int entry = 0;
    for (; queue.pop(task); entry = (entry + 1) % Size::kTasks) {
      read_rows(task.header.rows);
      walk_.begin(task.header);
      read_limits();
      shares_.begin(lane_, task.header.tile_m, limits_.count, args_.layer.group_size);
      if (warp_ == 0) announce(task, entry);
      for (int row = 0; row < task.header.tile_m; row += Size::kTokens) fill_queries(task, entry, row);
      fill_stages(task.head, entry, queue);
    }
    queue.leave();
    if (warp_ != 0) return;
    wait_for_slot();
    if (lane_ == 0) {
      shared_.stages[position_.slot()].task = entry;
      shared_.tasks[entry].rows = 0;
    }
    hand_over();
  }

 private:
  struct Stage {
    LocatedToken tokens[kGroups];
    int number = -1;
    int count;
    bool last;

    // Returns the rows that consumers may multiply: 16 or 32 tokens, or the whole stage.
    __device__ __forceinline__ int rows() const { return count > 32 ? Size::kTokens : (count + 15) / 16 * 16; }
  };

  __device__ __forceinline__ void wait_for_slot() const {
    barrier_wait(shared_address(&shared_.empty[position_.slot()]), position_.parity() ^ 1);
  }

  // Hands the slot to the consumers: its copies, and earlier writes to shared memory.
  __device__ __forceinline__ void hand_over() {
    const std::uint32_t full = shared_address(&shared_.full[position_.slot()]);
    barrier_arrive_after_copies(full);
    __syncwarp();
    if (lane_ == 0) barrier_arrive(full);
    position_.advance();
  }

  // Reads the item's queries: lane i has queries i and i + 32.
  __device__ __forceinline__ void read_rows(const Range& rows) {
    limits_.count = rows.end - rows.begin;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      item_rows_[half] = {0, INT32_MAX, kDirect, 0};
      const int query = lane_ + 32 * half;
      if (query < limits_.count) load_ahead(item_rows_[half], args_.step.rows + rows.begin + query);
    }
  }

  __device__ __forceinline__ void read_limits() {
#pragma unroll
    for (int half = 0; half < 2; ++half) limits_.limit[half] = item_rows_[half].limit;
    limits_.min_limit = __reduce_min_sync(kWholeWarp, min(limits_.limit[0], limits_.limit[1]));
  }

  // Publishes a task to the consumers, with its first Q.
  __device__ __forceinline__ void announce(const typename Queue::Task& task, int entry) {
    wait_for_slot();
    TaskInfo& info = shared_.tasks[entry];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = lane_ + 32 * half;
      if (query >= limits_.count) continue;
      info.token[query] = item_rows_[half].token;
      info.output[query] = item_rows_[half].output;
    }
    if (lane_ == 0) {
      note_begin(task);
      shared_.stages[position_.slot()].task = entry;
      info.head = task.head;
      info.number = task.number;
      info.has_partials = task.header.has_partials;
      info.queries = limits_.count;
      info.rows = limits_.count * args_.layer.group_size;
      info.row_shift = __ffs(task.header.tile_m / kWarpRows) - 1;
    }
    number_rows(limits_.count, info);
    __syncwarp();
  }

  // Records the begin of a task, at its first copy. Producers do this, as consumers have no spare register.
  __device__ __forceinline__ void note_begin(const typename Queue::Task& task) const {
    if (args_.times == nullptr) return;
    experimental::CudaTaskTime& times = args_.times[task.number];
    times.begin_ns = global_time();
    times.item = task.header.item;
    times.head = task.head;
    times.sm = sm_number();
    times.worker = static_cast<std::int32_t>(blockIdx.x);
  }

  __device__ __forceinline__ void number_rows(int queries, TaskInfo& info) const {
    const int group_size = args_.layer.group_size;
#pragma unroll
    for (int first = 0; first < kMaxTileRows; first += 32)
      info.row_query[first + lane_] = static_cast<std::uint8_t>(min((first + lane_) / group_size, queries - 1));
  }

  // Fills a slot with rows of Q; rows behind the task's last are zero. Done by the first producer warp.
  __device__ __forceinline__ void fill_queries(const typename Queue::Task& task, int entry, int first) {
    if (warp_ != 0) return position_.advance();
    if (first > 0) wait_for_slot();
    const TaskInfo& info = shared_.tasks[entry];
    const int group_size = args_.layer.group_size;
    const std::byte* q = static_cast<const std::byte*>(args_.layer.q);
    std::uint32_t present[kGroups];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int row = first + 32 * group + lane_;
      const std::byte* from = q;
      if (row < info.rows) {
        const int query = info.row_query[row];
        const int q_head = task.head * group_size + row - query * group_size;
        from += 2 * (info.token[query] * args_.layer.q_token + q_head * args_.layer.q_head);
      }
      shared_.k_rows[warp_][32 * group + lane_] = from;
      present[group] = __ballot_sync(kWholeWarp, row < info.rows);
    }
    __syncwarp();
    fetch(shared_.k_rows[warp_], present, min(task.header.tile_m - first, Size::kTokens));
    hand_over();
  }

  // Fills the stages of a task, at least one: an item without tokens then needs no special case in the consumers.
  __device__ __forceinline__ void fill_stages(int head, int entry, Queue& queue) {
    Stage stage;
    int passed = 0;
    bool claimed = false;
    bool more = locate(stage, passed);
    while (more) {
      pass(passed);
      wait_for_slot();
      std::uint32_t present[kGroups];
      publish(stage, head, entry, present);
      const int rows = stage.rows();
      more = locate(stage, passed);  // its page ids arrive while this stage's copies are issued
      const bool claims = !claimed && (!more || stage.last);
      if (claims) queue.claim();
      fetch(shared_.k_rows[warp_], present, rows);
      hand_over();
      wait_for_slot();
      fetch(shared_.v_rows[warp_], present, rows);
      hand_over();
      if (claims) queue.prefetch_next();
      claimed = claimed || claims;
    }
    if (!claimed) queue.claim();
    pass(passed);
  }

  // Advances to the warp's next stage. \param[out] passed number of other warps' stages in between
  // \return false at the task's end
  __device__ __forceinline__ bool locate(Stage& stage, int& passed) {
    for (passed = 0;; ++passed) {
      if (stage.number >= 0 && walk_.done()) return false;
      ++stage.number;
      if ((stage.number + 1) % kProducerWarps == warp_) break;
      walk_.skip(Size::kTokens);
    }
    stage.count = 0;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) stage.count += walk_.next(limits_, stage.tokens[group]);
    stage.last = walk_.done();
    return true;
  }

  __device__ __forceinline__ void pass(int stages) {
    for (int slot = 0; slot < 2 * stages; ++slot) position_.advance();
  }

  // Writes the addresses and masks of the stage's rows. Tokens that are masked for all queries are not read: they may
  // be NaN, and 0 x NaN is NaN.
  __device__ __forceinline__ void publish(const Stage& stage, int head, int entry, std::uint32_t (&present)[kGroups]) {
    StageInfo<Size::kTokens>& info = shared_.stages[position_.slot()];
    std::uint64_t visible[kGroups];
    const std::byte* k = static_cast<const std::byte*>(args_.layer.k) + 2 * head * args_.layer.k_strides.head;
    const std::byte* v = static_cast<const std::byte*>(args_.layer.v) + 2 * head * args_.layer.v_strides.head;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const LocatedToken& token = stage.tokens[group];
      const int at = 32 * group + lane_;
      visible[group] = token.mask & token.reached;
      const bool is_visible = visible[group] != 0;
      shared_.k_rows[warp_][at] = is_visible ? row_address(k, args_.layer.k_strides, token) : k;
      shared_.v_rows[warp_][at] = is_visible ? row_address(v, args_.layer.v_strides, token) : v;
      info.visible[at] = visible[group];
      present[group] = __ballot_sync(kWholeWarp, is_visible);
    }
    const WarpShare share = shares_.of(visible, limits_.all(), stage.number, stage.last);
    if (lane_ < kConsumerWarps) info.shares[lane_] = share;
    if (lane_ == 0) info.task = entry;
    __syncwarp();
  }

  static __device__ __forceinline__ const std::byte* row_address(const std::byte* head, const CacheStrides& strides,
                                                                 const LocatedToken& token) {
    return head + 2 * (token.page * strides.page + token.page_offset * strides.token);
  }

  // Copies the first `count` rows, a multiple of 16, into the present slot; rows that are not present become zero.
  __device__ __forceinline__ void fetch(const std::byte* const* rows, const std::uint32_t (&present)[kGroups],
                                        int count) const {
    bool whole = true;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) whole = whole && present[group] == ~0u;
    if (whole) {
      fetch_rows<true>(rows, present, count);
    } else {
      fetch_rows<false>(rows, present, count);
    }
  }

  template <bool kWhole>
  __device__ __forceinline__ void fetch_rows(const std::byte* const* rows, const std::uint32_t (&present)[kGroups],
                                             int count) const {
    constexpr int kRowsAtOnce = 32 / Size::kChunks;  // rows of one instruction of the warp
    const int chunk = lane_ % Size::kChunks;
    const std::uint32_t slot = shared_address(shared_.slots[position_.slot()]);
    for (int first = 0; first < count; first += 16) {
      const std::uint32_t present_rows = kGroups == 1 || first < 32 ? present[0] : present[kGroups - 1];
      // Addresses are read first: copies are issued in order, and each would wait for its own address.
      const std::byte* from[16 / kRowsAtOnce];
#pragma unroll
      for (int i = 0; i < 16 / kRowsAtOnce; ++i)
        from[i] = rows[first + i * kRowsAtOnce + lane_ / Size::kChunks] + 16 * chunk;
#pragma unroll
      for (int i = 0; i < 16 / kRowsAtOnce; ++i) {
        const int offset = i * kRowsAtOnce + lane_ / Size::kChunks;
        const std::uint32_t to = slot + (first + offset) * Size::kRowBytes + ((chunk ^ (offset % 8)) << 4);
        if constexpr (kWhole) {
          copy_async(to, from[i]);
        } else {
          copy_async_or_zero(to, from[i], ((present_rows >> ((first + offset) % 32)) & 1) != 0);
        }
      }
    }
  }

  const ForwardArgs& args_;
  SharedMemory<Size>& shared_;
  int warp_;
  int lane_;
  TokenWalk walk_;
  ItemRow item_rows_[2];
  QueryLimits limits_;
  WarpShares<Size::kTokens> shares_;
  RingPosition<Size::kSlots> position_;
};

}  // namespace trunkline::cuda::sm80
