// A consumer warpgroup: takes tiles from the ring, attends, writes.
#pragma once

#include <cstdint>

#include "exec/cuda/common/arrivals.cuh"
#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/sm90/attend.cuh"
#include "exec/cuda/sm90/epilogue.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/stage_walk.cuh"
#include "exec/cuda/sm90/tma.cuh"

namespace trunkline::cuda::sm90 {

/// \tparam kMerges whether partials are merged here, once a query has all
template <class Element, bool kMerges>
class Consumer {
  using Found = StageWalk::Found;

  // Stages of the other warpgroup that are passed while a stage is at hand and the V of the one before waits to be
  // added up. From that V to the K that is begun next, the ring must have room for them.
  static constexpr int kPassedAtMost = 2;
  static_assert(2 + 2 * (2 * kPassedAtMost) + 1 < kSlots);

 public:
  __device__ __forceinline__ Consumer(const ForwardArgs& args, SharedMemory& shared, int group, int thread)
      : args_(args),
        shared_(shared),
        walk_(shared, static_cast<unsigned>(group)),
        group_(group),
        rows_(shared_address(shared.slots), thread, fabsf(args.layer.scale_log2)) {}

  __device__ __forceinline__ void run() {
    for (;;) {
      const std::int32_t entry = walk_.next_task();
      if (entry == kNoTask) return;
      TaskInfo& task = shared_.tasks[entry];
      begin(task);
      attend();
      write(task);
    }
  }

 private:
  // What rows do not see of a stage.
  struct Hidden {
    uint4 visible;     // of each slice, the word that has the lane's rows' queries
    StageFlags flags;  // where some slice differs by token
  };

  __device__ __forceinline__ void begin(const TaskInfo& task) {
    rows_.forget_lane();
    // From one lane, so that the compiler knows it for the same in all.
    const int halves = __shfl_sync(kWholeWarp, task.halves, 0);
    walk_.begin(halves);
    const int half = walk_.half();
    for (int i = 0; i < halves; ++i, walk_.pass_queries()) {
      const RingPlace<kSlots> place = walk_.place();
      walk_.wait_for(place);
      if (i == half) rows_.load_queries(shared_address(shared_.slots[place.slot()]), args_.layer.scale_log2 < 0);
      fence_ordinary_writes();  // Q came by rows, and a box may come next
      walk_.release_shared(place.slot());
    }
    walk_.begin_stages();
    const int first = task.first_query[half];
    const std::uint8_t* row_query = task.row_query + kGroupRows * half + rows_.row();
    rows_.set_queries({row_query[0] - first, row_query[8] - first});
    rows_.clear();
  }

  // A stage's logits are computed while the next stage is looked for, and its V is added up beside the next one's
  // logits and their greatest.
  __device__ __forceinline__ void attend() {
    while (walk_.find(INT32_MAX) == Found::kStage) {
      begin_logits();
      products_commit();
      products_commit();  // of no V yet
      values_ = RingPlace<kSlots>::none();
      for (;;) {
        const Stage stage = walk_.found();
        const Hidden hidden = take_record();
        // Voted, so that the compiler knows it for the same in all lanes: products must not diverge.
        const bool more = __any_sync(kWholeWarp, walk_.find(kPassedAtMost) == Found::kStage) != 0;
        rows_.template wait_for_logits<1>();
        soften(stage, hidden);
        if (!more) {
          settle_weights();
          add_last_values(stage);
          break;
        }
        settle_weights();
        begin_logits();
        products_commit();
        begin_values(stage);
      }
    }
  }

  // Of the stage that was found last.
  __device__ __forceinline__ void begin_logits() {
    const RingPlace<kSlots> keys = walk_.found().keys();
    walk_.wait_for(keys);
    if (walk_.found().by_row()) fence_ordinary_writes();
    rows_.begin_logits(keys.slot());
  }
  __device__ __forceinline__ void begin_values(const Stage& stage) {
    values_ = stage.values();
    walk_.wait_for(values_);
    if (stage.by_row()) fence_ordinary_writes();
    rows_.begin_values(values_.slot());
    products_commit();
  }
  // Of the last stage before many of the other warpgroup's, or before the end.
  __device__ __forceinline__ void add_last_values(const Stage& stage) {
    begin_values(stage);
    rows_.wait_for_values();
    if (!walk_.keeps_slots(stage)) walk_.release(values_);
  }

  // Logits, which are there, become weights; the V of the stage before is added up.
  __device__ __forceinline__ void soften(const Stage& stage, const Hidden& hidden) {
    hide(stage, hidden);
    if (!walk_.keeps_slots(stage)) walk_.release(stage.keys());
    rows_.find_largest();
    rows_.soften();
  }

  __device__ __forceinline__ void settle_weights() {
    rows_.wait_for_values();
    if (!values_.is_none()) walk_.release(values_);
    rows_.rescale();
    rows_.round_weights();
  }

  // Of the stage that was found last, while its record is there; means something where the stage is masked.
  __device__ __forceinline__ Hidden take_record() const {
    const StageRecord& record = walk_.record();
    const auto* words = record.visible[walk_.half()][rows_.word_of_queries()];
    return {*reinterpret_cast<const uint4*>(words), StageFlags(record.flags)};
  }

  __device__ __forceinline__ void hide(const Stage& stage, const Hidden& hidden) {
    static_assert(kSlices == 4);
    if (!stage.masked()) return;
    rows_.hide_slices(hidden.visible);
    if (!stage.by_token()) return;
    const TokenMasks& masks = shared_.tokens[stage.keys().slot()];
    const std::uint32_t* of_token = masks.visible[walk_.half()][rows_.word_of_queries()];
    if (hidden.flags.by_token(0)) rows_.template hide_tokens<0>(of_token);
    if (hidden.flags.by_token(1)) rows_.template hide_tokens<1>(of_token);
    if (hidden.flags.by_token(2)) rows_.template hide_tokens<2>(of_token);
    if (hidden.flags.by_token(3)) rows_.template hide_tokens<3>(of_token);
  }

  __device__ __forceinline__ void write(TaskInfo& task) {
    rows_.forget_lane();
    const Epilogue<Element> epilogue(args_, shared_, task, group_, rows_.thread());
    epilogue.add_up_sums(rows_);
    const bool both = task.halves == 1;  // warpgroups have the rows
    const auto places = epilogue.find_places(rows_, both);
    if (both) {
      const int v_slot = walk_.place().slot_before();
      const int k_slot = v_slot == 0 ? kSlots - 1 : v_slot - 1;
      epilogue.exchange(rows_, k_slot, v_slot);
      fence_ordinary_writes();
      walk_.release_shared(k_slot);
      walk_.release_shared(v_slot);
    }
    epilogue.write(rows_, places, both);
    if constexpr (kMerges) {
      if (task.has_partials != 0) {
        named_barrier(kConsumerBarrier, kConsumerThreads);  // all partials of the task are written
        merge_arrivals<Element, kDim, kConsumerWarps>(args_, task, kConsumerBarrier);
        fence_ordinary_writes();  // to the task's outputs, where a copy comes next
      }
    }
    note_end(task);
  }

  // The later of the warpgroups'.
  __device__ __forceinline__ void note_end(const TaskInfo& task) const {
    if (args_.times == nullptr || rows_.thread() != 0) return;
    auto* const end = reinterpret_cast<unsigned long long*>(&args_.times[task.number].end_ns);
    atomicMax(end, static_cast<unsigned long long>(global_time()));
  }

  const ForwardArgs& args_;
  SharedMemory& shared_;
  StageWalk walk_;
  int group_;
  GroupRows<Element> rows_;
  RingPlace<kSlots> values_;  // of the V that is added up, if any
};

}  // namespace trunkline::cuda::sm90
