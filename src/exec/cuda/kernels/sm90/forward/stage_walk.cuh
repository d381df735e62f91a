// Finds the stages of a task that a consumer warpgroup has to do with. What a batch's records say of them is read once,
// as a word: a stage then takes a few instructions, and no look at memory.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/ring.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"

namespace trunkline::cuda::sm90 {

/// One that the warpgroup computes.
class Stage {
 public:
  static constexpr std::uint32_t kKept = 1u << StageTraits::kBits;  // beside StageTraits

  Stage() = default;
  __device__ __forceinline__ Stage(SlotPosition keys, std::uint32_t traits) : keys_(keys), traits_(traits) {}

  __device__ __forceinline__ SlotPosition keys() const { return keys_; }
  __device__ __forceinline__ SlotPosition values() const {
    SlotPosition place = keys_;
    place.advance();
    return place;
  }
  /// Some row does not see some slice.
  __device__ __forceinline__ bool masked() const { return (traits_ & StageTraits::kMasked) != 0; }
  /// Some slice is copied by ordinary instructions, or has an end to clear.
  __device__ __forceinline__ bool by_generic_proxy() const { return (traits_ & StageTraits::kByHand) != 0; }
  /// The other warpgroup passes it.
  __device__ __forceinline__ bool alone() const { return (traits_ & StageTraits::kAlone) != 0; }
  /// Its slots are not released: the last of rows that both warpgroups have serve them to add up their sums.
  __device__ __forceinline__ bool kept() const { return (traits_ & kKept) != 0; }

 private:
  SlotPosition keys_;
  std::uint32_t traits_;
};

class StageWalk {
  static constexpr int kPassedTogether = kSlots / 2;  // stages, at most

 public:
  enum class Found : std::uint8_t { kStage, kFarOff, kEnd };

  /// \param group the warpgroup
  __device__ __forceinline__ StageWalk(SharedMemory& shared, unsigned group) : shared_(shared), group_(group) {}

  /// Once the batch at hand is written, which is a task's first. \return its task's entry, or kNoTask
  __device__ __forceinline__ std::int32_t next_task() const {
    wait_for_batch();
    return shared_.batch_tasks[batch_.slot()];
  }
  /// The ring's slot at hand.
  __device__ __forceinline__ SlotPosition place() const { return place_; }
  /// Whose rows the warpgroup has.
  __device__ __forceinline__ int half() const { return by_turns() ? 0 : static_cast<int>(group_); }

  /// The barrier that tells when the slot is full.
  __device__ __forceinline__ std::uint32_t full(SlotPosition place) const {
    return shared_address(&shared_.full[place.slot()]);
  }
  /// Until the slot is full in its place's round: of Q, or of a stage before which any number may have been passed. Who
  /// passes the other warpgroup's stages without waiting may be ahead of the slot's rounds, where its barrier's parity
  /// means another one, so that the round's begin is waited for first; shared memory answers in the order it is asked.
  /// Nobody is behind: a round ends with the arrivals of those who wait for its slot.
  __device__ __forceinline__ void wait_for(SlotPosition place) const {
    const std::uint32_t begun = shared_address(&shared_.begun);
    while (static_cast<std::int32_t>(load_shared(begun) - place.word()) < 0) {
    }
    wait_for_near(place);
  }
  /// The same, of a stage that follows one that is full, or its V: copies to what was in the slot before are done.
  __device__ __forceinline__ void wait_for_near(SlotPosition place) const { barrier_wait(full(place), place.parity()); }
  /// One lane arrives for its warp, after the reads of all. \param alone for the other warpgroup's, too
  __device__ __forceinline__ void release(SlotPosition place, bool alone) const {
    __syncwarp();
    barrier_arrive_elected(shared_address(&shared_.empty[place.slot()]), alone ? kGroups : 1);
  }

  /// \param halves of the task: 1: both warpgroups have the same rows, and take stages by turns
  __device__ __forceinline__ void begin(int halves) { stride_ = halves == 1 ? kGroups : 1; }
  /// Past a slot of Q.
  __device__ __forceinline__ void pass_queries() { place_.advance(); }
  /// Once all of Q is passed.
  __device__ __forceinline__ void begin_stages() {
    done_ = false;
    const int passed = by_turns() ? static_cast<int>(group_) : 0;
    place_ = place_.ahead(2 * passed);
    view_batch(1 + passed);
  }

  /// Walks on to a stage that the warpgroup computes, and past it. \return kFarOff: more stages are to be passed
  __device__ __forceinline__ Found find(int most_passed) {
    if ((traits_ & StageTraits::kVisible) != 0) return take_stage();
    while (!done_) {
      const std::uint32_t seen = traits_ & StageTraits::kEach * StageTraits::kVisible;
      // By turns it is -1 where one more is passed than the batch has.
      const int skipped = seen == 0 ? end_ - number_ : (__ffs(static_cast<int>(seen)) - 1) / StageTraits::kBits;
      if (skipped > most_passed) {
        pass(most_passed);
        return Found::kFarOff;
      }
      pass(skipped);
      most_passed -= skipped;
      if (number_ < end_) return take_stage();
      leave_batch();
      done_ = ends_task_;
      const int passed = number_ - end_;  // of the next batch
      if (done_) {
        if (passed != 0) place_ = place_.back(2);
        break;
      }
      wait_for_batch();
      view_batch(passed);
    }
    return Found::kEnd;
  }
  /// What the last `find` came to.
  __device__ __forceinline__ const Stage& found() const { return found_; }
  /// Its record, until the next `find`.
  __device__ __forceinline__ const StageRecord& record() const {
    return shared_.records[batch_.slot()][number_ - stride_];
  }

 private:
  __device__ __forceinline__ void wait_for_batch() const {
    barrier_wait(shared_address(&shared_.batch_full[batch_.slot()]), batch_.parity());
  }
  __device__ __forceinline__ bool by_turns() const { return stride_ != 1; }

  // The stage at hand is one that the warpgroup computes. Where stages are taken by turns, the next one is not.
  __device__ __forceinline__ Found take_stage() {
    std::uint32_t traits = traits_ & (Stage::kKept - 1);
    if (number_ + 1 == end_ && keeps_last_) traits |= Stage::kKept;
    found_ = Stage(place_, traits);
    place_ = place_.ahead(2 * stride_);
    number_ += stride_;
    traits_ >>= StageTraits::kBits * stride_;
    return Found::kStage;
  }

  // \param number of the record that is at hand
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

  // Others compute them, and alone release their slots.
  __device__ __forceinline__ void pass(int stages) {
#pragma unroll 1
    while (stages > 0) {
      const int together = least(stages, kPassedTogether);
      place_ = place_.ahead(2 * together);
      number_ += together;
      traits_ >>= StageTraits::kBits * together;
      stages -= together;
    }
  }

  SharedMemory& shared_;
  unsigned group_;
  SlotPosition place_;
  RingPosition<kBatches> batch_;
  Stage found_;
  int stride_ = 1;            // 2: every second stage is the warpgroup's
  int number_ = 0;            // the record at hand, in its batch
  int end_ = 0;               // of the batch's records
  std::uint32_t traits_ = 0;  // StageTraits from the one at hand on
  bool ends_task_ = false;    // the batch does
  bool keeps_last_ = false;   // the batch's last stage is to be kept
  bool done_ = false;
};

}  // namespace trunkline::cuda::sm90
