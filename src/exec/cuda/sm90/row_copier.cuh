// The warps that copy by rows what boxes cannot bring: Q, small pages, slices of which some tokens must not be read. Of
// Q, each brings 32 rows of a slot; of stages, one brings K and says who sees which token, the other V.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/common/page_places.cuh"
#include "exec/cuda/common/ptx.cuh"
#include "exec/cuda/sm90/record_reader.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/task_queries.cuh"
#include "exec/cuda/sm90/tma.cuh"
#include "exec/cuda/sm90/wgmma.cuh"

namespace trunkline::cuda::sm90 {

class RowCopier {
  static constexpr int kRowsAtOnce = 2;   // 16 lanes each
  static constexpr int kRowsOfCopy = 32;  // a lane knows the address of one
  static constexpr int kLanesOfRow = 32 / kRowsAtOnce;

 public:
  /// \param copier 0 or 1
  __device__ __forceinline__ RowCopier(const ForwardArgs& args, SharedMemory& shared, int copier, int lane)
      : args_(args),
        shared_(shared),
        copier_(copier),
        lane_(lane),
        records_(shared, lane),
        places_(args.pages.page_size) {}

  __device__ __forceinline__ void run() {
    for (;;) {
      const StageRecord& record = records_.next();
      if (records_.at_end()) return;
      const TaskInfo& task = records_.task();
      if (record.kind == StageRecord::kQueries) {
        for (int half = 0; half < task.halves; ++half) take_slot([&] { return fill_queries(task, half); });
        records_.pass(false);
        continue;
      }
      const StageFlags flags(record.flags);
      for (int tensor = 0; tensor < 2; ++tensor)
        take_slot([&] { return tensor == copier_ && fill_stage(record, flags, task); });
      records_.pass(flags.batch_end());
    }
  }

 private:
  // \param fill begins the copier's copies to the slot, and tells whether there are some
  template <class Fill>
  __device__ __forceinline__ void take_slot(Fill fill) {
    records_.wait_for_slot();
    if (!fill()) return records_.pass_slot(kCopierArrivals);
    barrier_arrive_after_copies(records_.full());
    records_.pass_slot(1);
  }

  // Each copier's part of a half's rows of Q; those after its last are zero.
  __device__ __forceinline__ bool fill_queries(const TaskInfo& task, int half) const {
    static_assert(kRowsOfCopy * kRowCopiers == kGroupRows);
    if (half == 0) note_begin(task);
    const int row = kRowsOfCopy * copier_ + lane_;
    const bool live = row < task.half_rows[half];
    const auto* from = static_cast<const std::byte*>(args_.layer.q);
    if (live) {
      const int in_half = row / args_.layer.group_size;
      const std::int64_t token = task.token_of(task.first_query[half] + in_half);
      const int q_head = task.head * args_.layer.group_size + row - in_half * args_.layer.group_size;
      from += 2 * (token * args_.layer.q_token + q_head * args_.layer.q_head);
    }
    const std::uint32_t first = kRowsOfCopy * kRowBytes * static_cast<std::uint32_t>(copier_);
    copy<kRowsOfCopy>(from, __ballot_sync(kWholeWarp, live), shared_address(records_.slot()) + first);
    return true;
  }

  // At the task's first copy.
  __device__ __forceinline__ void note_begin(const TaskInfo& task) const {
    if (args_.times == nullptr || lane_ != 0 || copier_ != 0) return;
    CudaTaskTime& times = args_.times[task.number];
    times.begin_ns = global_time();
    times.end_ns = 0;  // both warpgroups raise it
    times.item = task.item;
    times.head = task.head;
    times.sm = sm_number();
    times.worker = static_cast<std::int32_t>(blockIdx.x);
  }

  // The stage's slices that boxes do not bring. Tokens that no query sees are not read: what lies there may be NaN,
  // which a weight of zero does not hide. What some see and others do not is read: a NaN in V then reaches all rows of
  // the warpgroup.
  __device__ __forceinline__ bool fill_stage(const StageRecord& record, StageFlags flags, const TaskInfo& task) const {
    if (!flags.by_row()) return false;
    const bool strided = holds_whole_slices(args_.pages.page_size);
#pragma unroll 1
    for (int i = 0; i < kSlices; ++i) {
      if (!flags.by_row(i)) continue;
      const SliceRecord& slice = record.slices[i];
      std::uint32_t seen = slice.count > 0 && flags.seen(i) ? 0xFFFF : 0;
      if (flags.by_token(i)) seen = see_tokens(record, i, task);
      const std::uint32_t to = shared_address(records_.slot()) + static_cast<std::uint32_t>(i * kSliceBytes);
      if (strided) {
        copy_slice(row_address(slice, task.head, 0), seen, to);
      } else {
        copy<kSliceTokens>((seen >> lane_ & 1) != 0 ? row_address(slice, task.head, lane_) : cache(), seen, to);
      }
    }
    return true;
  }

  // Lane i has token i of a slice of which queries see some only. \return bit i: some query sees token i
  __device__ __forceinline__ std::uint32_t see_tokens(const StageRecord& record, int number,
                                                      const TaskInfo& task) const {
    const SliceRecord& slice = record.slices[number];
    const QueryHalves halves(task.queries, task.halves == 2 ? task.first_query[1] : 0);
    QuerySet visible{{0, 0}};  // by half
    if (lane_ < slice.count) {
      if (slice.mask_stride != 0) {
        visible = halves.by_half(mask_at(args_.plan, slice.mask + std::int64_t{slice.mask_stride} * lane_));
      } else {
#pragma unroll
        for (int half = 0; half < kGroups; ++half) {
          const auto& words = record.visible[half];
          visible.words[half] = words[0][number] | std::uint64_t{words[1][number]} << 32;
        }
      }
      if (slice.limited != 0) visible = after(visible, slice.position + lane_, halves, task.rows);
    }
    if (copier_ == 0 && lane_ < kSliceTokens) {
      TokenMasks& masks = shared_.tokens[records_.slot_number()];
#pragma unroll
      for (int half = 0; half < kGroups; ++half)
        masks.visible[half][kSliceTokens * number + lane_] = visible.words[half];
    }
    return __ballot_sync(kWholeWarp, !visible.empty());
  }

  // The copier's.
  __device__ __forceinline__ const std::byte* cache() const {
    return static_cast<const std::byte*>(copier_ == 0 ? args_.layer.k : args_.layer.v);
  }
  __device__ __forceinline__ const std::byte* row_address(const SliceRecord& slice, int head, int token) const {
    const CacheStrides& strides = copier_ == 0 ? args_.layer.k_strides : args_.layer.v_strides;
    const std::int32_t position = slice.position + token;
    std::int64_t page = slice.page;
    if (!holds_whole_slices(args_.pages.page_size)) page = page_id(args_.pages, page + places_.page_of(position));
    return cache() + 2 * (head * strides.head + page * strides.page + places_.place_of(position) * strides.token);
  }

  // Rows of 256 bytes. \param row of lane i: the i-th's address \param seen bit i: row i is to be read; else it is zero
  // \param to where the first goes in its slot
  template <int kRows>
  __device__ __forceinline__ void copy(const std::byte* row, std::uint32_t seen, std::uint32_t to) const {
    const auto address = static_cast<long long>(reinterpret_cast<std::uintptr_t>(row));
    const int chunk = lane_ % kLanesOfRow;
#pragma unroll 4
    for (int i = 0; i < kRows; i += kRowsAtOnce) {
      const int from = i + lane_ / kLanesOfRow;
      const auto* at = reinterpret_cast<const std::byte*>(__shfl_sync(kWholeWarp, address, from)) + 16 * chunk;
      copy_async_or_zero(to + chunk_offset(from, chunk), at, (seen >> from & 1) != 0);
    }
  }

  // The same of a slice whose rows lie a token's stride apart. \param first row's address
  __device__ __forceinline__ void copy_slice(const std::byte* first, std::uint32_t seen, std::uint32_t to) const {
    const std::int64_t stride = 2 * (copier_ == 0 ? args_.layer.k_strides : args_.layer.v_strides).token;
    const int chunk = lane_ % kLanesOfRow;
    const std::byte* at = first + lane_ / kLanesOfRow * stride + 16 * chunk;
#pragma unroll
    for (int i = 0; i < kSliceTokens; i += kRowsAtOnce) {
      const int row = i + lane_ / kLanesOfRow;
      copy_async_or_zero(to + chunk_offset(row, chunk), at, (seen >> row & 1) != 0);
      at += kRowsAtOnce * stride;
    }
  }

  const ForwardArgs& args_;
  SharedMemory& shared_;
  int copier_;
  int lane_;
  RecordReader records_;
  PagePlaces places_;
};

}  // namespace trunkline::cuda::sm90
