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
  // Stages of the other warpgroup that are passed while the V of one of its own waits to be added up. With more, slots
  // are released so far ahead of that V that a producer, who waits only for the slots that it fills, could take the
  // parity of its slot's round before for the present one's.
  static constexpr int kPassedAtMost = 1;

 public:
  __device__ __forceinline__ Consumer(const ForwardArgs& args, SharedMemory& shared, int group, int thread)
      : args_(args), shared_(shared), group_(group), thread_(thread), rows_(thread, fabsf(args.layer.scale_log2)) {}

  __device__ __forceinline__ void run() {
    for (;;) {
      wait_for_slot(place_);
      if (record().kind == StageRecord::kEnd) return;
      const TaskInfo& task = shared_.tasks[record().task];
      begin(task);
      attend(task);
      write(task);
    }
  }

 private:
  enum class Found : std::uint8_t { kStage, kFarOff, kEnd };

  __device__ __forceinline__ void wait_for_slot(RingPlace<kSlots> place) const {
    barrier_wait(shared_address(&shared_.full[place.slot()]), place.parity());
  }
  // Of the Q or the stage at hand, whose first slot is full: it was written before.
  __device__ __forceinline__ const StageRecord& record() const {
    return shared_.records[record_.batch()][record_.number()];
  }
  // One lane arrives for its warp, after the reads of all.
  __device__ __forceinline__ void release(int slot, int arrivals) const {
    __syncwarp();
    barrier_arrive_elected(shared_address(&shared_.empty[slot]), static_cast<std::uint32_t>(arrivals));
  }
  __device__ __forceinline__ std::uint32_t slot_address(RingPlace<kSlots> place) const {
    return shared_address(shared_.slots[place.slot()]);
  }
  // The slots of a stage that is the last of rows that both warpgroups have serve them to add up their sums.
  __device__ __forceinline__ bool keeps_slots(const TaskInfo& task) const { return flags_.last() && task.halves == 1; }

  __device__ __forceinline__ int half_of(const TaskInfo& task) const { return task.halves == 2 ? group_ : 0; }
  // Rows that both warpgroups have take the stages by turns.
  __device__ __forceinline__ bool computes(const TaskInfo& task) const {
    return task.halves == 2 ? flags_.seen_by(group_) : owns_stage() && flags_.seen_by(0);
  }
  __device__ __forceinline__ bool owns_stage() const { return stage_ % kGroups == group_; }
  // Of each warp of this warpgroup, when it is done with a slot of the stage. Who does not release a slot may be lapped
  // by its rounds, so all do that wait for it: where stages are taken by turns, only the one whose turn it is, for
  // both.
  __device__ __forceinline__ int arrivals(const TaskInfo& task) const {
    return task.halves == 2 ? 1 : owns_stage() ? kGroups : 0;
  }

  __device__ __forceinline__ void begin(const TaskInfo& task) {
    const int half = half_of(task);
    for (int i = 0; i < task.halves; ++i) {
      if (i > 0) wait_for_slot(place_);
      if (i == half) rows_.load_queries(slot_address(place_), args_.layer.scale_log2 < 0);
      fence_ordinary_writes();  // Q came by rows, and a box may come next
      release(place_.slot(), 1);
      place_.advance();
    }
    record_.advance(false);
    const std::uint8_t* row_query = task.row_query + kGroupRows * half + rows_.row();
    rows_.set_queries({row_query[0] - task.first_query[half], row_query[8] - task.first_query[half]});
    rows_.clear();
  }

  // A stage's softmax runs beside the product of the warpgroup's stage before with its V.
  __device__ __forceinline__ void attend(const TaskInfo& task) {
    ended_ = false;
    stage_ = 0;
    while (find_stage(task, INT32_MAX) == Found::kStage) {
      if (flags_.by_row()) fence_ordinary_writes();
      rows_.begin_products();
      rows_.begin_logits(slot_address(place_));
      rows_.template wait_for_logits<0>();
      take_logits(task);
      wait_for_slot(place_);
      rows_.rescale();
      take_weights(task);
      while (find_stage(task, kPassedAtMost) == Found::kStage) overlap(task);
      add_values();
    }
  }

  __device__ __forceinline__ void overlap(const TaskInfo& task) {
    if (flags_.by_row()) fence_ordinary_writes();
    rows_.begin_products();
    rows_.begin_logits(slot_address(place_));
    rows_.begin_values(slot_address(values_));
    rows_.template wait_for_logits<1>();
    take_logits(task);
    wait_for_slot(place_);
    rows_.wait_for_values();
    release_values();
    rows_.rescale();
    take_weights(task);
  }

  // Walks on to a stage that the warpgroup computes.
  __device__ __forceinline__ Found find_stage(const TaskInfo& task, int most_passed) {
    for (int passed = 0; !ended_; ++passed) {
      if (record_.number() == 0) barrier_wait(shared_address(&shared_.batch_full[record_.batch()]), record_.parity());
      flags_ = StageFlags(record().flags);
      if (computes(task)) {
        wait_for_slot(place_);
        return Found::kStage;
      }
      if (passed == most_passed) return Found::kFarOff;
      pass_stage(task);
    }
    return Found::kEnd;
  }

  // Who passed a stage without waiting could come to its slot's next round while this one is still under way, of which
  // a parity does not tell. Not so where stages are taken by turns: the slot's next one is this warpgroup's own again
  // (the ring holds an even number of stages), or of a task that begins after both have met.
  __device__ __forceinline__ void pass_stage(const TaskInfo& task) {
    static_assert(kSlots % (2 * kGroups) == 0);
    const int due = arrivals(task);
    for (int i = 0; i < 2; ++i) {
      if (due > 0) {
        wait_for_slot(place_);
        if (flags_.by_row()) fence_ordinary_writes();
        if (!keeps_slots(task)) release(place_.slot(), due);
      }
      place_.advance();
    }
    pass_record();
  }

  // After the last look at the stage's record.
  __device__ __forceinline__ void pass_record() {
    if (flags_.batch_end()) {
      __syncwarp();
      barrier_arrive_elected(shared_address(&shared_.batch_empty[record_.batch()]), 1);
    }
    record_.advance(flags_.batch_end());
    ++stage_;
    ended_ = flags_.last();
  }

  // From the stage's K on to its V.
  __device__ __forceinline__ void take_logits(const TaskInfo& task) {
    const int half = half_of(task);
    if (flags_.masked_for(half)) {
      const auto* visible = record().visible[half][rows_.word_of_queries()];
      rows_.hide_slices(*reinterpret_cast<const uint4*>(visible));
      if (flags_.by_token()) hide_tokens(half);
    }
    if (!keeps_slots(task)) release(place_.slot(), arrivals(task));
    place_.advance();
    rows_.soften();
  }

  __device__ __forceinline__ void hide_tokens(int half) {
    static_assert(kSlices == 4);
    const std::uint64_t* visible = shared_.tokens[place_.slot()].visible[half];
    if (flags_.by_token(0)) rows_.template hide_tokens<0>(visible);
    if (flags_.by_token(1)) rows_.template hide_tokens<1>(visible);
    if (flags_.by_token(2)) rows_.template hide_tokens<2>(visible);
    if (flags_.by_token(3)) rows_.template hide_tokens<3>(visible);
  }

  // From its V, which has come and which the next products take, on to the next stage.
  __device__ __forceinline__ void take_weights(const TaskInfo& task) {
    if (flags_.by_row()) fence_ordinary_writes();
    rows_.keep_weights();
    values_ = place_;
    values_arrivals_ = keeps_slots(task) ? 0 : arrivals(task);
    place_.advance();
    pass_record();
  }

  // Of the last stage before many of the other warpgroup's, or before the end.
  __device__ __forceinline__ void add_values() {
    rows_.begin_products();
    rows_.begin_values(slot_address(values_));
    rows_.wait_for_values();
    release_values();
  }

  __device__ __forceinline__ void release_values() const {
    if (values_arrivals_ > 0) release(values_.slot(), values_arrivals_);
  }

  __device__ __forceinline__ void write(const TaskInfo& task) {
    const Epilogue<Element> epilogue(args_, shared_, task, group_, thread_);
    if (task.halves == 2) {
      epilogue.write_own(rows_);
    } else {
      const int v_slot = place_.slot_before();
      const int k_slot = v_slot == 0 ? kSlots - 1 : v_slot - 1;
      epilogue.write_shared(rows_, k_slot, v_slot);
      fence_ordinary_writes();
      release(k_slot, 1);
      release(v_slot, 1);
    }
    if (args_.arrived != nullptr && task.has_partials != 0) {
      named_barrier(kConsumerBarrier, kConsumerThreads);  // all partials of the task are written
      merge_arrivals<Element, kDim, kConsumerWarps>(args_, task);
    }
    note_end(task);
  }

  // The later of the warpgroups'.
  __device__ __forceinline__ void note_end(const TaskInfo& task) const {
    if (args_.times == nullptr || thread_ != 0) return;
    auto* const end = reinterpret_cast<unsigned long long*>(&args_.times[task.number].end_ns);
    atomicMax(end, static_cast<unsigned long long>(global_time()));
  }

  const ForwardArgs& args_;
  SharedMemory& shared_;
  int group_;
  int thread_;
  GroupRows<Element> rows_;
  RingPlace<kSlots> place_;
  RecordPlace record_;
  RingPlace<kSlots> values_;  // of the V that waits to be added up
  StageFlags flags_;
  int stage_ = 0;            // of the task, that is at hand
  int values_arrivals_ = 0;  // due when that V is added up
  bool ended_ = false;
};

}  // namespace trunkline::cuda::sm90
