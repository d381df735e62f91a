// The three loader warps, which fill the ring. One issues the TMA copies of K and one those of V, as one warp would not
// keep up with both; the latter and the third copy row by row where TMA cannot. All run the same code, so that only the
// first to arrive waits for cold instructions.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/sm90/forward/cache_maps.hpp"
#include "exec/cuda/kernels/sm90/forward/record_reader.cuh"
#include "exec/cuda/kernels/sm90/forward/row_loader.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/slice_tma_tiles.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"

namespace trunkline::cuda::sm90 {

/// \tparam S Traits
template <class S>
class Loader {
  // Roles; the third loader only copies rows.
  static constexpr int kKeyTmaTiles = 0;
  static constexpr int kValueTmaTilesAndRows = 1;

 public:
  /// \param role 0 to 2, uniform and known as such to the compiler
  __device__ __forceinline__ Loader(const ForwardArgs& args, const CacheMaps& maps, SharedMemory<S>& shared, int role,
                                    int lane)
      : page_size_(args.pages.page_size),
        shared_(shared),
        role_(role),
        lane_(lane),
        records_(shared, lane),
        tma_tiles_(role == kKeyTmaTiles ? maps.k : maps.v, maps.octets, lane),
        rows_(args, maps, shared, role - kValueTmaTilesAndRows, lane) {}

  __device__ __forceinline__ void run() {
    tma_tiles_.prefetch();
    for (bool first = true; records_.next(); first = false, records_.pass()) {
      const StageRecord* const batch = records_.batch();
      const TaskInfo& task = records_.task();
      const int head = task.head;
      const bool opens = batch->kind == StageRecord::kQueries;
      if (opens) copy_queries(task, first);
      view_tma_tiles(batch);
      // The first TMA copy of K waits until the copies of Q are issued: no computation can start without Q.
      if (first && role_ == kKeyTmaTiles) named_barrier(kQueriesBarrier, kLoaderThreads);
      const int first_stage = opens ? 1 : 0;
      const bool looks_up = S::kCopiesRuns && copies_rows();
      if (looks_up && first_stage < batch->batch_records) rows_.look_up(batch[first_stage]);
#pragma unroll 1
      for (int number = first_stage; number < batch->batch_records; ++number) {
        if (looks_up) rows_.pass_stage(number + 1 < batch->batch_records ? &batch[number + 1] : nullptr);
        copy_stage(batch[number], number, task, head);
      }
    }
  }

 private:
  __device__ __forceinline__ bool copies_rows() const {
    return role_ != kKeyTmaTiles;
  }

  __device__ __forceinline__ void copy_queries(const TaskInfo& task, bool first) {
#pragma unroll 1
    for (int half = 0; half < task.halves; ++half) {
      begin_slot();
      if (copies_rows()) rows_.copy_queries(task, half, records_.slot());
      end_slot(copies_rows());
    }
    if (first && copies_rows()) named_barrier_arrive(kQueriesBarrier, kLoaderThreads);
  }

  __device__ __forceinline__ void view_tma_tiles(const StageRecord* batch) {
    const StageRecord& record = batch[lane_ / kSlices];
    const SliceRecord& slice = record.slices[lane_ % kSlices];
    const bool of_values = role_ == kValueTmaTilesAndRows && slice.value_tma_tile();
    tma_tiles_.view(slice, role_ == kKeyTmaTiles ? slice.key_tma_tile() : of_values, page_size_);
  }

  // Fills two slots: K, then V.
  __device__ __forceinline__ void copy_stage(const StageRecord& record, int number, const TaskInfo& task, int head) {
    if (copies_rows() && rows_.has_some(StageFlags(record.flags))) return copy_with_rows(record, number, task);
    copy_by_tma(number, head, role_ == kKeyTmaTiles);
    copy_by_tma(number, head, role_ == kValueTmaTilesAndRows);
  }

  // \param tma_tiles whether this warp copies the slot's tensor by TMA
  __device__ __forceinline__ void copy_by_tma(int number, int head, bool tma_tiles) {
    begin_slot();
    if (tma_tiles) begin_tma_tiles(number, head);
    end_slot(false);
  }

  __device__ __forceinline__ void copy_with_rows(const StageRecord& record, int number, const TaskInfo& task) {
    const StageFlags flags(record.flags);
    std::uint32_t visible_tokens = 0;
#pragma unroll 1
    for (int tensor = 0; tensor < 2; ++tensor) {
      const bool values = tensor != 0;
      begin_slot();
      if (values && role_ == kValueTmaTilesAndRows) begin_tma_tiles(number, task.head);
      if (!values) visible_tokens = rows_.find_visible_tokens(record, flags, task, records_.slot());
      end_slot(rows_.copy_tokens(record, flags, task.head, values, visible_tokens, records_.slot()));
    }
  }

  // Issues the TMA copies of the warp's tensor.
  __device__ __forceinline__ void begin_tma_tiles(int number, int head) const {
    const std::uint32_t bytes = tma_tiles_.bytes(number);
    if (bytes == 0) return;
    if (lane_ == 0) barrier_expect(records_.copied(), bytes);
    __syncwarp();
    tma_tiles_.copy(number, head, shared_address(shared_.slots[records_.slot()]), records_.copied());
  }

  // Waits for the slot, and publishes its position: consumers pass stages of each other without waiting
  // (StageWalk::wait_for).
  __device__ __forceinline__ void begin_slot() const {
    records_.wait_for_slot();
    if (role_ == kKeyTmaTiles && lane_ == 0) store_shared(shared_address(&shared_.begun), records_.position().word());
  }

  // Arrives for the slot. \param rows whether the lanes have issued row copies to it
  __device__ __forceinline__ void end_slot(bool rows) {
    if (rows) barrier_arrive_after_copies(records_.copied());
    records_.pass_slot(copies_rows() && !rows ? kRowLoaderArrivals : 1);
  }

  std::int32_t page_size_;
  SharedMemory<S>& shared_;
  int role_;
  int lane_;
  RecordReader<S> records_;
  SliceTmaTiles<S> tma_tiles_;
  RowLoader<S> rows_;
};

}  // namespace trunkline::cuda::sm90
