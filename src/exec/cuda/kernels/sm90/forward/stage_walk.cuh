// Finds the stages of a task that a consumer warpgroup computes. The traits of a batch are read once, as a word: a
// stage then takes a few instructions and no memory access.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/ring.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"

namespace trunkline::cuda::sm90 {

/// A stage that the warpgroup computes.
template <int kSlots>
class Stage {
  using SlotPosition = sm90::SlotPosition<kSlots>;

 public:
  static constexpr std::uint32_t kKept = 1u << StageTraits::kBits;  // beside StageTraits

  Stage() = default;
  __device__ __forceinline__ Stage(SlotPosition keys, std::uint32_t traits) : keys_(keys), traits_(traits) {}

  __device__ __forceinline__ SlotPosition keys() const { return keys_; }
  __device__ __forceinline__ SlotPosition values() const {
    SlotPosition position = keys_;
    position.advance();
    return position;
  }
  /// Whether some slice is masked for some row.
  __device__ __forceinline__ bool masked() const { return (traits_ & StageTraits::kMasked) != 0; }
  /// Whether some slice is copied by ordinary instructions, or has an end to clear.
  __device__ __forceinline__ bool by_generic_proxy() const { return (traits_ & StageTraits::kGenericProxy) != 0; }
  /// Whether the other warpgroup passes it.
  __device__ __forceinline__ bool alone() const { return (traits_ & StageTraits::kAlone) != 0; }
  /// Whether its slots are not released yet: the last stage of rows that both warpgroups hold keeps them for the
  /// epilogue's exchange.
  __device__ __forceinline__ bool kept() const { return (traits_ & kKept) != 0; }

 private:
  SlotPosition keys_;
  std::uint32_t traits_;
};

/// \tparam S Traits
template <class S>
class StageWalk {
  static constexpr int kPassedTogether = S::kSlots / 2;  // stages, at most

 public:
  using SlotPosition = sm90::SlotPosition<S::kSlots>;
  using Stage = sm90::Stage<S::kSlots>;
  enum class Found : std::uint8_t { kStage, kFarOff, kEnd };

  /// \param group index of the warpgroup
  __device__ __forceinline__ StageWalk(SharedMemory<S>& shared, unsigned group) : shared_(shared), group_(group) {}

  /// Waits for the first batch of the next task. \return index of the task's entry, or kNoTask
  __device__ __forceinline__ std::int32_t next_task() const {
    wait_for_batch();
    return shared_.batch_tasks[batch_.slot()];
  }
  /// Returns the present position in the ring.
  __device__ __forceinline__ SlotPosition position() const { return position_; }
  /// Returns the half whose rows the warpgroup holds.
  __device__ __forceinline__ int half() const { return by_turns() || S::kSplitsColumns ? 0 : static_cast<int>(group_); }

  /// Returns the mbarrier that completes when the slot is full.
  __device__ __forceinline__ std::uint32_t full(SlotPosition position) const {
    return shared_address(&shared_.full[position.slot()]);
  }
  /// Waits until the slot is full in the round of its position: for Q, or for a stage before which any number of stages
  /// may have been passed. A warpgroup that passes stages without waiting may be ahead of the slot's rounds, where the
  /// parity of the mbarrier means an earlier round; so the begin of the round is waited for first. Shared memory serves
  /// accesses in order. A warpgroup cannot be behind: a round ends with the arrivals of those who wait for its slot.
  __device__ __forceinline__ void wait_for(SlotPosition position) const {
    const std::uint32_t begun = shared_address(&shared_.begun);
    while (static_cast<std::int32_t>(load_shared(begun) - position.word()) < 0) {
    }
    wait_for_near(position);
  }
  /// Waits for a stage that follows a full one, or for its V: the copies of the slot's former round are done.
  __device__ __forceinline__ void wait_for_near(SlotPosition position) const {
    barrier_wait(full(position), position.parity());
  }
  /// Releases a slot: one lane arrives for its warp, after the reads of all lanes. \param alone arrive for the other
  /// warpgroup as well
  __device__ __forceinline__ void release(SlotPosition position, bool alone) const {
    __syncwarp();
    barrier_arrive_elected(shared_address(&shared_.empty[position.slot()]), alone ? kGroups : 1);
  }

  /// Begins a task. \param halves 1: both warpgroups hold the same rows, and take stages in turns unless each computes
  /// columns of its own
  __device__ __forceinline__ void begin(int halves) { stride_ = halves == 1 && !S::kSplitsColumns ? kGroups : 1; }
  /// Passes a slot of Q.
  __device__ __forceinline__ void pass_queries() { position_.advance(); }
  /// Begins the stages, after all slots of Q are passed.
  __device__ __forceinline__ void begin_stages() {
    done_ = false;
    const int passed = by_turns() ? static_cast<int>(group_) : 0;
    position_ = position_.ahead(2 * passed);
    view_batch(1 + passed);
  }

  /// Finds the next stage that the warpgroup computes, and passes it. \return kFarOff: more than `max_passed` stages
  /// must be passed first
  __device__ __forceinline__ Found find(int max_passed) {
    if ((traits_ & StageTraits::kVisible) != 0) return take_stage();
    while (!done_) {
      const std::uint32_t visible = traits_ & StageTraits::kEach * StageTraits::kVisible;
      // With stages in turns it is -1 if one stage more is passed than the batch has.
      const int skipped = visible == 0 ? end_ - number_ : (__ffs(static_cast<int>(visible)) - 1) / StageTraits::kBits;
      if (skipped > max_passed) {
        pass(max_passed);
        return Found::kFarOff;
      }
      pass(skipped);
      max_passed -= skipped;
      if (number_ < end_) return take_stage();
      leave_batch();
      done_ = ends_task_;
      const int passed = number_ - end_;  // stages of the next batch
      if (done_) {
        if (passed != 0) position_ = position_.back(2);
        break;
      }
      wait_for_batch();
      view_batch(passed);
    }
    return Found::kEnd;
  }
  /// Returns the stage that the last `find` found.
  __device__ __forceinline__ const Stage& found() const { return found_; }
  /// Returns the record of that stage, valid until the next `find`.
  __device__ __forceinline__ const StageRecord& record() const {
    return shared_.records[batch_.slot()][number_ - stride_];
  }

 private:
  __device__ __forceinline__ void wait_for_batch() const {
    barrier_wait(shared_address(&shared_.batch_full[batch_.slot()]), batch_.parity());
  }
  __device__ __forceinline__ bool by_turns() const { return stride_ != 1; }

  // Takes the present stage, which the warpgroup computes. With stages in turns, the next one is passed as well.
  __device__ __forceinline__ Found take_stage() {
    std::uint32_t traits = traits_ & (Stage::kKept - 1);
    if (S::kSplitsColumns) traits &= ~std::uint32_t{StageTraits::kAlone};  // no warpgroup passes a stage
    if (number_ + 1 == end_ && keeps_last_) traits |= Stage::kKept;
    found_ = Stage(position_, traits);
    position_ = position_.ahead(2 * stride_);
    number_ += stride_;
    traits_ >>= StageTraits::kBits * stride_;
    return Found::kStage;
  }

  // Reads the traits of a batch. \param number index of the present record
  __device__ __forceinline__ void view_batch(int number) {
    const StageRecord& batch = shared_.records[batch_.slot()][0];
    number_ = number;
    end_ = batch.batch_records;
    ends_task_ = batch.batch_ends_task != 0;
    keeps_last_ = ends_task_ && by_turns();
    traits_ = batch.batch_traits[half()] >> (StageTraits::kBits * number);
  }

  __device__ __forceinline__ void leave_batch() {
    __syncwarp();
    barrier_arrive_elected(shared_address(&shared_.batch_empty[batch_.slot()]), 1);
    batch_.advance();
  }

  // Passes stages that the other warpgroup computes; it alone releases their slots.
  __device__ __forceinline__ void pass(int stages) {
#pragma unroll 1
    while (stages > 0) {
      const int together = min(stages, kPassedTogether);
      position_ = position_.ahead(2 * together);
      number_ += together;
      traits_ >>= StageTraits::kBits * together;
      stages -= together;
    }
  }

  SharedMemory<S>& shared_;
  unsigned group_;
  SlotPosition position_;
  RingPosition<kBatches> batch_;
  Stage found_;
  int stride_ = 1;            // 2: the warpgroup computes every second stage
  int number_ = 0;            // index of the present record in its batch
  int end_ = 0;               // number of the batch's records
  std::uint32_t traits_ = 0;  // StageTraits, from the present stage on
  bool ends_task_ = false;    // the batch ends the task
  bool keeps_last_ = false;   // the batch's last stage is kept
  bool done_ = false;
};

}  // namespace trunkline::cuda::sm90
