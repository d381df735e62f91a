// The warps that copy by rows what boxes cannot bring: Q, pages that are no multiple of 8 tokens, V of slices of which
// some tokens must not be read. Of Q, each brings 32 rows of a slot; of stages, two slices, and says who sees which of
// their tokens.
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
  static constexpr int kSlicesOfCopier = kSlices / kRowCopiers;
  static_assert(kSlicesOfCopier * kSliceTokens == kRowsOfCopy);  // a lane for each token

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
    bool first = true;  // task
    for (;;) {
      const StageRecord& record = records_.next();
      if (records_.at_end()) return;
      const TaskInfo& task = records_.task();
      if (record.kind == StageRecord::kQueries) {
        for (int half = 0; half < task.halves; ++half) take_slot([&] { return fill_queries(task, half); });
        __syncwarp();
        if (first) named_barrier_arrive(kQueriesBarrier, kCopierThreads);
        first = false;
        records_.pass(false);
        continue;
      }
      const StageFlags flags(record.flags);
      static_assert(kSlicesOfCopier == 2);
      const bool some = flags.by_row(2 * copier_) || flags.by_row(2 * copier_ + 1);
      std::uint32_t seen = 0;
      take_slot([&] {
        if (some) seen = see_tokens(record, flags, task);
        return some && fill_keys(record, flags, task.head, seen);
      });
      take_slot([&] { return some && fill_values(record, flags, task.head, seen); });
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
    copy<kRowsOfCopy>(from, __ballot_sync(kWholeWarp, live), 0, shared_address(records_.slot()) + first);
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

  // Of the copier's slices that come by rows. Where they differ by token, who sees which is written.
  // \return bit i: some query sees token i
  __device__ __forceinline__ std::uint32_t see_tokens(const StageRecord& record, StageFlags flags,
                                                      const TaskInfo& task) const {
    const int number = slice_of_lane();
    const SliceRecord& slice = record.slices[number];
    const int token = lane_ % kSliceTokens;
    bool seen = flags.by_row(number) && flags.seen(number) && token < slice.count;
    if (flags.by_token(number)) {
      QuerySet visible{{0, 0}};  // by half
      if (seen) visible = who_sees(record, number, token, task);
      TokenMasks& masks = shared_.tokens[records_.slot_number()];
#pragma unroll
      for (int half = 0; half < kGroups; ++half) {
        auto& words = masks.visible[half];
        words[0][kSliceTokens * number + token] = static_cast<std::uint32_t>(visible.words[half]);
        words[1][kSliceTokens * number + token] = static_cast<std::uint32_t>(visible.words[half] >> 32);
      }
      seen = !visible.empty();
    }
    return __ballot_sync(kWholeWarp, seen);
  }

  __device__ __forceinline__ QuerySet who_sees(const StageRecord& record, int number, int token,
                                               const TaskInfo& task) const {
    const SliceRecord& slice = record.slices[number];
    const QueryHalves halves(task.queries, task.halves == 2 ? task.first_query[1] : 0);
    QuerySet visible{{0, 0}};
    if (slice.mask_stride != 0) {
      visible = halves.by_half(mask_at(args_.plan, slice.mask + std::int64_t{slice.mask_stride} * token));
    } else {
#pragma unroll
      for (int half = 0; half < kGroups; ++half) {
        const auto& words = record.visible[half];
        visible.words[half] = words[0][number] | std::uint64_t{words[1][number]} << 32;
      }
    }
    return slice.limited() ? after(visible, slice.position + token, halves, task.rows) : visible;
  }

  // K that no box brings; of slices that no query sees none is needed, as their logits are hidden.
  __device__ __forceinline__ bool fill_keys(const StageRecord& record, StageFlags flags, int head,
                                            std::uint32_t seen) const {
    bool wanted[kSlicesOfCopier];
#pragma unroll
    for (int i = 0; i < kSlicesOfCopier; ++i) {
      const int number = kSlicesOfCopier * copier_ + i;
      wanted[i] = flags.by_row(number) && flags.seen(number) && !record.slices[number].key_box();
    }
    return fill_slices(record, wanted, args_.layer.k, args_.layer.k_strides, head, seen);
  }

  // Tokens that no query sees are not read: what lies there may be NaN, which a weight of zero does not hide. What some
  // see and others do not is read: a NaN in V then reaches all rows of the warpgroup.
  __device__ __forceinline__ bool fill_values(const StageRecord& record, StageFlags flags, int head,
                                              std::uint32_t seen) const {
    bool wanted[kSlicesOfCopier];
#pragma unroll
    for (int i = 0; i < kSlicesOfCopier; ++i) wanted[i] = flags.by_row(kSlicesOfCopier * copier_ + i);
    return fill_slices(record, wanted, args_.layer.v, args_.layer.v_strides, head, seen);
  }

  // \return whether some of the copier's slices are wanted
  __device__ __forceinline__ bool fill_slices(const StageRecord& record, const bool (&wanted)[kSlicesOfCopier],
                                              const void* cache, const CacheStrides& strides, int head,
                                              std::uint32_t seen) const {
    static_assert(kSlicesOfCopier == 2);
    if (!wanted[0] && !wanted[1]) return false;
    const std::byte* row = static_cast<const std::byte*>(cache);
    if ((seen >> lane_ & 1) != 0) row += 2 * place_of_token(record.slices[slice_of_lane()], strides, head);
    const std::uint32_t to =
        shared_address(records_.slot()) + static_cast<std::uint32_t>(kSlicesOfCopier * copier_ * kSliceBytes);
    if (wanted[0]) copy<kSliceTokens>(row, seen, 0, to);
    if (wanted[1]) copy<kSliceTokens>(row, seen, kSliceTokens, to + kSliceBytes);
    return true;
  }

  __device__ __forceinline__ int slice_of_lane() const {
    return kSlicesOfCopier * copier_ + lane_ / kSliceTokens;
  }

  // In elements: of the lane's token of its slice.
  __device__ __forceinline__ std::int64_t place_of_token(const SliceRecord& slice, const CacheStrides& strides,
                                                         int head) const {
    const int token = lane_ % kSliceTokens;
    const std::int32_t page_size = args_.pages.page_size;
    std::int64_t page = 0;
    std::int32_t place = 0;
    if (octets_of_box(page_size) > 0) {
      const SliceRecord::TokenPlace in_pages = slice.place_of(token, page_size);
      page = in_pages.page;
      place = in_pages.place;
    } else {
      const std::int32_t position = slice.position + token;
      page = page_id(args_.pages, slice.ids_begin + places_.page_of(position));
      place = places_.place_of(position);
    }
    return head * strides.head + page * strides.page + place * strides.token;
  }

  // Rows of 256 bytes. \param row of lane i: an address \param seen bit i: it is to be read; else the row is zero
  // \param first lane that has one of these \param to where that row goes
  template <int kRows>
  __device__ __forceinline__ void copy(const std::byte* row, std::uint32_t seen, int first, std::uint32_t to) const {
    const auto address = static_cast<long long>(reinterpret_cast<std::uintptr_t>(row));
    const int chunk = lane_ % kLanesOfRow;
    constexpr int kTogether = 4;  // shuffles, then their copies
#pragma unroll 1
    for (int i = 0; i < kRows; i += kTogether * kRowsAtOnce) {
      const std::byte* at[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int from = first + i + j * kRowsAtOnce + lane_ / kLanesOfRow;
        at[j] = reinterpret_cast<const std::byte*>(__shfl_sync(kWholeWarp, address, from)) + 16 * chunk;
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int in_slot = i + j * kRowsAtOnce + lane_ / kLanesOfRow;
        copy_async_or_zero(to + chunk_offset(in_slot, chunk), at[j], (seen >> (first + in_slot) & 1) != 0);
      }
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
