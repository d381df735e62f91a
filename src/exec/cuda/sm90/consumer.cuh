// A consumer warpgroup: takes tiles from the ring, attends, writes.
#pragma once

#include <cstdint>

#include "exec/cuda/common/arrivals.cuh"
#include "exec/cuda/common/kernel_args.hpp"
#include "exec/cuda/sm90/attend.cuh"
#include "exec/cuda/sm90/epilogue.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/tma.cuh"

namespace trunkline::cuda::sm90 {

template <class Element>
class Consumer {
  // Stages of the other warpgroup that are passed while a stage is at hand and the V of the one before waits to be
  // added up. From that V to the K that is begun next, the ring must have room for them.
  static constexpr int kPassedAtMost = 2;
  static_assert(2 + 2 * (2 * kPassedAtMost) + 1 < kSlots);

  struct Stage {
    StageFlags flags;
    RecordPlace record;
    RingPlace<kSlots> keys;  // its V is in the slot after
  };

 public:
  __device__ __forceinline__ Consumer(const ForwardArgs& args, SharedMemory& shared, int group, int thread)
      : args_(args),
        shared_(shared),
        group_(group),
        rows_(shared_address(shared.slots), thread, fabsf(args.layer.scale_log2)) {}

  __device__ __forceinline__ void run() {
    for (;;) {
      wait_for_slot(place_);
      const StageRecord& first = record(record_);
      if (first.kind == StageRecord::kEnd) return;
      const TaskInfo& task = shared_.tasks[first.task];
      begin(task);
      attend();
      write(task);
    }
  }

 private:
  enum class Found : std::uint8_t { kStage, kFarOff, kEnd };

  __device__ __forceinline__ void wait_for_slot(RingPlace<kSlots> place) const {
    barrier_wait(shared_address(&shared_.full[place.slot()]), place.parity());
  }
  __device__ __forceinline__ const StageRecord& record(RecordPlace place) const {
    return shared_.records[place.batch()][place.number()];
  }
  // One lane arrives for its warp, after the reads of all. Who does not release a slot may be lapped by its rounds, so
  // all do that wait for it: where stages are taken by turns, only the one whose turn it is, for both.
  __device__ __forceinline__ void release(int slot) const {
    __syncwarp();
    barrier_arrive_elected(shared_address(&shared_.empty[slot]), by_turns_ ? kGroups : 1);
  }
  // The slots of a stage that is the last of rows that both warpgroups have serve them to add up their sums.
  __device__ __forceinline__ bool keeps_slots(StageFlags flags) const { return by_turns_ && flags.last(); }

  // Rows that both warpgroups have take the stages by turns.
  __device__ __forceinline__ bool owns_stage() const { return !by_turns_ || (stage_ ^ group_) % kGroups == 0; }
  __device__ __forceinline__ int half() const { return by_turns_ ? 0 : group_; }

  __device__ __forceinline__ void begin(const TaskInfo& task) {
    rows_.forget_lane();
    // From one lane, so that the compiler knows it for the same in all.
    const int halves = __shfl_sync(kWholeWarp, task.halves, 0);
    by_turns_ = halves == 1;
    for (int i = 0; i < halves; ++i) {
      if (i > 0) wait_for_slot(place_);
      if (i == half()) rows_.load_queries(shared_address(shared_.slots[place_.slot()]), args_.layer.scale_log2 < 0);
      fence_ordinary_writes();  // Q came by rows, and a box may come next
      __syncwarp();
      barrier_arrive_elected(shared_address(&shared_.empty[place_.slot()]), 1);
      place_.advance();
    }
    record_.advance(false);
    const int first = task.first_query[half()];
    const std::uint8_t* row_query = task.row_query + kGroupRows * half() + rows_.row();
    rows_.set_queries({row_query[0] - first, row_query[8] - first});
    rows_.clear();
    ended_ = false;
    stage_ = 0;
  }

  // A stage's logits are computed while the next stage is looked for, and its V is added up beside the next one's
  // logits and their greatest.
  __device__ __forceinline__ void attend() {
    while (find_stage(INT32_MAX) == Found::kStage) {
      begin_logits();
      products_commit();
      products_commit();  // of no V yet
      adds_values_ = false;
      for (;;) {
        const Stage stage = next_;
        const uint4 visible = take_record(stage);
        // Voted, so that the compiler knows it for the same in all lanes: products must not diverge.
        const bool more = __any_sync(kWholeWarp, find_stage(kPassedAtMost) == Found::kStage) != 0;
        rows_.template wait_for_logits<1>();
        soften(stage, visible);
        if (!more) {
          add_last_values(stage);
          break;
        }
        begin_logits();
        products_commit();
        begin_values(stage);
      }
    }
  }

  // Of the last stage before many of the other warpgroup's, or before the end.
  __device__ __forceinline__ void add_last_values(const Stage& stage) {
    begin_values(stage);
    rows_.wait_for_values();
    if (!keeps_slots(stage.flags)) release(values_.slot());
  }

  // Of the stage that was found last.
  __device__ __forceinline__ void begin_logits() {
    wait_for_slot(next_.keys);
    if (next_.flags.by_row()) fence_ordinary_writes();
    rows_.begin_logits(next_.keys.slot());
  }
  __device__ __forceinline__ void begin_values(const Stage& stage) {
    values_ = stage.keys;
    values_.advance();
    adds_values_ = true;
    wait_for_slot(values_);
    if (stage.flags.by_row()) fence_ordinary_writes();
    rows_.begin_values(values_.slot());
    products_commit();
  }

  // Logits, which are there, become weights; the V of the stage before is added up.
  __device__ __forceinline__ void soften(const Stage& stage, uint4 visible) {
    hide(stage, visible);
    if (!keeps_slots(stage.flags)) release(stage.keys.slot());
    rows_.find_largest();
    rows_.wait_for_values();
    if (adds_values_) release(values_.slot());
    rows_.rescale();
    rows_.soften();
  }

  // Has done with the stage's record: stages after it may be the last of its batch.
  // \return of each slice, the word that has the lane's rows' queries
  __device__ __forceinline__ uint4 take_record(const Stage& stage) const {
    uint4 visible{};
    if (stage.flags.masked_for(half())) {
      const auto* words = record(stage.record).visible[half()][rows_.word_of_queries()];
      visible = *reinterpret_cast<const uint4*>(words);
    }
    release_record(stage.flags, stage.record);
    return visible;
  }

  __device__ __forceinline__ void hide(const Stage& stage, uint4 visible) {
    static_assert(kSlices == 4);
    if (!stage.flags.masked_for(half())) return;
    rows_.hide_slices(visible);
    if (!stage.flags.by_token()) return;
    const std::uint64_t* of_token = shared_.tokens[stage.keys.slot()].visible[half()];
    if (stage.flags.by_token(0)) rows_.template hide_tokens<0>(of_token);
    if (stage.flags.by_token(1)) rows_.template hide_tokens<1>(of_token);
    if (stage.flags.by_token(2)) rows_.template hide_tokens<2>(of_token);
    if (stage.flags.by_token(3)) rows_.template hide_tokens<3>(of_token);
  }

  __device__ __forceinline__ void release_record(StageFlags flags, RecordPlace place) const {
    if (!flags.batch_end()) return;
    __syncwarp();
    barrier_arrive_elected(shared_address(&shared_.batch_empty[place.batch()]), 1);
  }

  // Walks on to a stage that the warpgroup computes, and past it: it is then `next_`.
  __device__ __forceinline__ Found find_stage(int most_passed) {
    for (int passed = 0; !ended_; ++passed) {
      if (record_.number() == 0) barrier_wait(shared_address(&shared_.batch_full[record_.batch()]), record_.parity());
      const StageFlags flags(record(record_).flags);
      const bool owns = owns_stage();
      const bool computes = owns && flags.seen_by(half());
      if (!computes && passed == most_passed) return Found::kFarOff;
      if (computes) {
        next_ = {flags, record_, place_};
      } else {
        if (owns) pass_slots(flags);
        release_record(flags, record_);
      }
      place_.advance();
      place_.advance();
      record_.advance(flags.batch_end());
      ++stage_;
      ended_ = flags.last();
      if (computes) return Found::kStage;
    }
    return Found::kEnd;
  }

  // Who passed a stage without waiting could come to its slot's next round while this one is still under way, of which
  // a parity does not tell. Not so where stages are taken by turns: the slot's next one is this warpgroup's own again
  // (the ring holds an even number of stages), or of a task that begins after both have met.
  __device__ __forceinline__ void pass_slots(StageFlags flags) const {
    static_assert(kSlots % (2 * kGroups) == 0);
    RingPlace<kSlots> place = place_;
    for (int i = 0; i < 2; ++i, place.advance()) {
      wait_for_slot(place);
      if (flags.by_row()) fence_ordinary_writes();
      if (!keeps_slots(flags)) release(place.slot());
    }
  }

  __device__ __forceinline__ void write(const TaskInfo& task) {
    rows_.forget_lane();
    const Epilogue<Element> epilogue(args_, shared_, task, group_, rows_.thread());
    if (task.halves == 2) {
      epilogue.write_own(rows_);
    } else {
      const int v_slot = place_.slot_before();
      const int k_slot = v_slot == 0 ? kSlots - 1 : v_slot - 1;
      epilogue.write_shared(rows_, k_slot, v_slot);
      fence_ordinary_writes();
      __syncwarp();
      barrier_arrive_elected(shared_address(&shared_.empty[k_slot]), 1);
      barrier_arrive_elected(shared_address(&shared_.empty[v_slot]), 1);
    }
    if (args_.arrived != nullptr && task.has_partials != 0) {
      named_barrier(kConsumerBarrier, kConsumerThreads);  // all partials of the task are written
      merge_arrivals<Element, kDim, kConsumerWarps>(args_, task);
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
  unsigned group_;
  GroupRows<Element> rows_;
  RingPlace<kSlots> place_;
  RecordPlace record_;
  Stage next_;                // found, its logits begun
  RingPlace<kSlots> values_;  // of the V that is added up
  unsigned stage_ = 0;        // of the task
  bool by_turns_ = false;     // both warpgroups have the same rows
  bool adds_values_ = false;
  bool ended_ = false;
};

}  // namespace trunkline::cuda::sm90
