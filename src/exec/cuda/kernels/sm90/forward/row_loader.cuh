// Row-by-row copies, for data that TMA cannot copy: Q, pages that are no multiple of 8 tokens, V of slices whose masks
// differ by token, V of short slices in a task's last stage, and slices that begin inside a TMA tile. Each of two warps
// copies 32 rows of a slot of Q, or two slices of a stage, and writes the masks of their tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/page_offsets.cuh"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm90/forward/cache_maps.hpp"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/task_queries.cuh"
#include "exec/cuda/kernels/sm90/forward/wgmma.cuh"

namespace trunkline::cuda::sm90 {

/// \tparam S Traits
template <class S>
class RowLoader {
  static constexpr int kRowsOfCopy = 32;  // a lane holds the address of one row
  static constexpr int kSlicesOfLoader = kSlices / kRowLoaders;
  static_assert(kSlicesOfLoader * kSliceTokens == kRowsOfCopy);  // a lane for each token

 public:
  /// \param loader 0 or 1
  __device__ __forceinline__ RowLoader(const ForwardArgs& args, const CacheMaps& maps, SharedMemory<S>& shared,
                                       int loader, int lane)
      : args_(args), maps_(maps), shared_(shared), loader_(loader), lane_(lane), page_offsets_(args.pages.page_size) {}

  /// Issues the copies of the loader's part of a half's rows of Q to a slot; rows behind the last are zero.
  __device__ __forceinline__ void copy_queries(const TaskInfo& task, int half, int slot) const {
    static_assert(kRowsOfCopy * kRowLoaders == kGroupRows);
    if (half == 0) note_begin(task);
    const int row = kRowsOfCopy * loader_ + lane_;
    const bool live = row < task.half_rows[half];
    std::uint32_t at = 0;
    if (live) {
      const auto token = static_cast<std::uint32_t>(task.token_of(task.query_of(half, row)));
      const auto q_head = static_cast<std::uint32_t>(task.q_head_of(half, row, args_.layer.group_size));
      at = token * maps_.q_steps.token + q_head * maps_.q_steps.head;
    }
    copy<WideRows>(args_.layer.q, maps_.q_steps.unit, at, __ballot_sync(kWholeWarp, live), 0, kRowsOfCopy,
                   part_of(slot));
  }

  /// Passes to a stage whose page ids `look_up` has read, and reads those of the next. A read takes 600 clocks or more,
  /// a stage of scattered tokens 1,000. \param next the record of the next stage; null: it is in another batch
  __device__ __forceinline__ void pass_stage(const StageRecord* next) {
    page_ = next_page_;
    if (next != nullptr) look_up(*next);
  }
  /// Reads the page id of the lane's token of a stage, if its record does not have it.
  __device__ __forceinline__ void look_up(const StageRecord& record) {
    const SliceRecord& slice = record.slices[slice_of_lane()];
    if (slice.key_tma_tile() || lane_ % kSliceTokens >= slice.count) return;
    const std::int32_t position = slice.position + lane_ % kSliceTokens;
    next_page_ = static_cast<std::int32_t>(page_id(args_.pages, slice.ids_begin + page_offsets_.page_of(position)));
  }

  /// Whether some of the loader's slices are copied by rows.
  __device__ __forceinline__ bool has_some(StageFlags flags) const {
    static_assert(kSlicesOfLoader == 2);
    return flags.by_row(2 * loader_) || flags.by_row(2 * loader_ + 1);
  }

  /// Finds the visible tokens of the loader's slices that are copied by rows. If masks differ by token, writes them.
  /// \return bit i: token i is visible to some query
  __device__ __forceinline__ std::uint32_t find_visible_tokens(const StageRecord& record, StageFlags flags,
                                                               const TaskInfo& task, int slot) const {
    const int number = slice_of_lane();
    const SliceRecord& slice = record.slices[number];
    const int token = lane_ % kSliceTokens;
    bool is_visible = flags.by_row(number) && flags.visible(number) && token < slice.count;
    if (flags.by_token(number)) {
      QuerySet visible{{0, 0}};  // a word for each half
      if (is_visible) visible = visible_to(record, number, token, task);
      TokenMasks& masks = shared_.tokens[slot];
#pragma unroll
      for (int half = 0; half < kGroups; ++half) {
        auto& words = masks.visible[half];
        words[0][kSliceTokens * number + token] = static_cast<std::uint32_t>(visible.words[half]);
        words[1][kSliceTokens * number + token] = static_cast<std::uint32_t>(visible.words[half] >> 32);
      }
      is_visible = !visible.empty();
    }
    return __ballot_sync(kWholeWarp, is_visible);
  }

  /// Issues the row copies of a stage's K or V to a slot. K of slices that are masked for all queries is not copied, as
  /// their logits are masked. V of tokens that are masked for all queries is made zero, not read: it may be NaN, and 0
  /// x NaN is NaN. V that is visible to only some queries is read: a NaN in it then reaches all rows of the warpgroup.
  /// \param values copy V, else K \param visible_tokens from find_visible_tokens \return whether copies were issued
  __device__ __forceinline__ bool copy_tokens(const StageRecord& record, StageFlags flags, int head, bool values,
                                              std::uint32_t visible_tokens, int slot) const {
    std::uint32_t wanted = 0;
#pragma unroll
    for (int i = 0; i < kSlicesOfLoader; ++i) {
      const int number = kSlicesOfLoader * loader_ + i;
      const bool keys = flags.visible(number) && !record.slices[number].key_tma_tile();
      if (flags.by_row(number) && (values || keys)) wanted |= 1u << i;
    }
    if (wanted == 0) return false;
    const RowSteps& steps = values ? maps_.v_steps : maps_.k_steps;
    std::uint32_t at = 0;
    if ((visible_tokens >> lane_ & 1) != 0) at = unit_of_token(record.slices[slice_of_lane()], steps, head);
    const int first = (wanted & 1) != 0 ? 0 : kSliceTokens;
    const int end = (wanted & 2) != 0 ? kRowsOfCopy : kSliceTokens;
    using Rows = std::conditional_t<S::kWidens, NarrowRows, WideRows>;
    copy<Rows>(values ? args_.layer.v : args_.layer.k, steps.unit, at, visible_tokens, first, end, part_of(slot));
    return true;
  }

 private:
  // Records the begin of the task, at its first copy.
  __device__ __forceinline__ void note_begin(const TaskInfo& task) const {
    if (args_.times == nullptr || lane_ != 0 || loader_ != 0) return;
    experimental::CudaTaskTime& times = args_.times[task.number];
    times.begin_ns = global_time();
    times.end_ns = 0;  // both warpgroups raise it
    times.item = task.item;
    times.head = task.head;
    times.sm = sm_number();
    times.worker = static_cast<std::int32_t>(blockIdx.x);
  }

  __device__ __forceinline__ QuerySet visible_to(const StageRecord& record, int number, int token,
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

  // Returns the address of the loader's part of a slot.
  __device__ __forceinline__ std::uint32_t part_of(int slot) const {
    return shared_address(shared_.slots[slot]) + kRowsOfCopy * S::kRowBytes * static_cast<std::uint32_t>(loader_);
  }

  __device__ __forceinline__ int slice_of_lane() const {
    return kSlicesOfLoader * loader_ + lane_ / kSliceTokens;
  }

  // Returns where the lane's token of its slice lies, in units of its steps.
  __device__ __forceinline__ std::uint32_t unit_of_token(const SliceRecord& slice, const RowSteps& steps,
                                                         int head) const {
    const int token = lane_ % kSliceTokens;
    std::int32_t page = 0;
    std::int32_t page_offset = 0;
    if constexpr (!S::kCopiesRuns) {
      const SliceRecord::TokenLocation location = slice.location_of(token, args_.pages.page_size);
      page = location.page;
      page_offset = location.page_offset;
    } else if (slice.key_tma_tile()) {
      page_offset = slice.place_in_run(token);  // pages lie one behind another
    } else {
      page = page_;
      page_offset = page_offsets_.offset_of(slice.position + token);
    }
    return static_cast<std::uint32_t>(head) * steps.head + static_cast<std::uint32_t>(page) * steps.page +
           static_cast<std::uint32_t>(page_offset) * steps.token;
  }

  // The layout of rows of 16 bits in a slot.
  struct WideRows {
    static constexpr int kBytes = S::kRowBytes;

    static __device__ __forceinline__ std::uint32_t first(int row, int chunk) { return chunk_offset<S>(row, chunk); }
    static __device__ __forceinline__ std::uint32_t ahead(std::uint32_t address, int rows) {
      return rows_ahead<S>(address, rows);
    }
  };
  // The layout of rows of 8 bits, before they are widened.
  struct NarrowRows {
    static constexpr int kBytes = S::kKvRowBytes;

    static __device__ __forceinline__ std::uint32_t first(int row, int chunk) {
      return static_cast<std::uint32_t>(S::kKvOffset + row * kBytes + 16 * chunk);
    }
    static __device__ __forceinline__ std::uint32_t ahead(std::uint32_t address, int rows) {
      return address + static_cast<std::uint32_t>(rows * kBytes);
    }
  };

  // Issues copies of rows, for lanes [first, end), of whole slices. \param at where the lane's row lies behind `rows`,
  // in units \param present bit i: row i is read, else it becomes zero \param to destination of the slice of lane 0
  //
  // A single warp's instructions follow each other by 4 clocks or more, so they are what the copy costs: 19 of them for
  // each 512 bytes took 1,600 clocks for 32 rows of d 128. So lanes exchange units of 32 bits, not addresses, and lie
  // so that the lane to read from is the same number in each group of lanes that copies a row.
  template <class Rows>
  __device__ __forceinline__ void copy(const void* rows, std::uint32_t unit, std::uint32_t at, std::uint32_t present,
                                       int first, int end, std::uint32_t to) const {
    constexpr int kLanesOfRow = Rows::kBytes / 16;  // 4 to 32
    constexpr int kRowsAtOnce = 32 / kLanesOfRow;
    constexpr int kCopies = kSliceTokens / kRowsAtOnce;   // of a slice
    constexpr int kTogether = kCopies < 4 ? kCopies : 4;  // copies whose shuffles precede them
    const int chunk = lane_ % kLanesOfRow;
    const int row_of_lane = lane_ / kLanesOfRow;
    const void* const chunks = add_product(rows, static_cast<std::uint32_t>(chunk), 16);
    const std::uint32_t to_lane = to + Rows::first(row_of_lane, chunk);
    const std::uint32_t units = __shfl_sync(kWholeWarp, at, kRowsAtOnce * chunk + row_of_lane);
#pragma unroll
    for (int slice = 0; slice < kRowsOfCopy; slice += kSliceTokens) {
      if (slice < first || slice >= end) continue;
      const std::uint32_t to_slice = to_lane + static_cast<std::uint32_t>(slice * S::kRowBytes);
      const std::uint32_t present_rows = present >> (slice + row_of_lane);
#pragma unroll
      for (int i = 0; i < kCopies; i += kTogether) {
        const void* address[kTogether];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          const int from = slice / kRowsAtOnce + i + j;  // in the lane's group
          address[j] = add_product(chunks, __shfl_sync(kWholeWarp, units, from, kLanesOfRow), unit);
        }
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          const int row_of_slice = (i + j) * kRowsAtOnce;
          copy_async_if(Rows::ahead(to_slice, row_of_slice), address[j], present_rows, 1u << row_of_slice);
        }
      }
    }
  }

  const ForwardArgs& args_;
  const CacheMaps& maps_;
  SharedMemory<S>& shared_;
  int loader_;
  int lane_;
  PageOffsets page_offsets_;
  std::int32_t page_ = 0;  // of the lane's token of the present stage, if records do not have it
  std::int32_t next_page_ = 0;
};

}  // namespace trunkline::cuda::sm90
