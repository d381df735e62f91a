// Finds the stages of a task that a consumer warpgroup has to do with. What a batch's records say of them is read once,
// as a word: a stage then takes a few instructions, and no look at memory.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "exec/cuda/common/ptx.cuh"
#include "exec/cuda/common/ring.cuh"
#include "exec/cuda/sm90/shared_memory.cuh"
#include "exec/cuda/sm90/stage_record.cuh"
#include "exec/cuda/sm90/tma.cuh"

namespace trunkline::cuda::sm90 {

/// One that the warpgroup computes.
class Stage {
 public:
  static constexpr std::uint32_t kLast = 1u << StageTraits::kBits;  // of its task; beside StageTraits

  Stage() = default;
  __device__ __forceinline__ Stage(RingPlace<kSlots> keys, std::uint32_t traits) : keys_(keys), traits_(traits) {}

  __device__ __forceinline__ RingPlace<kSlots> keys() const { return keys_; }
  __device__ __forceinline__ RingPlace<kSlots> values() const {
    RingPlace<kSlots> place = keys_;
    place.advance();
    return place;
  }
  /// Some row does not see some slice.
  __device__ __forceinline__ bool masked() const { return (traits_ & StageTraits::kMasked) != 0; }
  /// Some slice was copied by ordinary instructions.
  __device__ __forceinline__ bool by_row() const { return (traits_ & StageTraits::kByRow) != 0; }
  __device__ __forceinline__ bool by_token() const { return (traits_ & StageTraits::kByToken) != 0; }
  /// Of its task.
  __device__ __forceinline__ bool last() const { return (traits_ & kLast) != 0; }

 private:
  RingPlace<kSlots> keys_;
  std::uint32_t traits_;
};

class StageWalk {
  static constexpr int kPassedTogether = 2;  // stages: until the last is there, none of their slots is released

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
  __device__ __forceinline__ RingPlace<kSlots> place() const { return place_; }
  __device__ __forceinline__ bool by_turns() const { return by_turns_; }
  /// Whose rows the warpgroup has.
  __device__ __forceinline__ int half() const { return by_turns_ ? 0 : static_cast<int>(group_); }

  __device__ __forceinline__ void wait_for(RingPlace<kSlots> place) const {
    barrier_wait(shared_address(&shared_.full[place.slot()]), place.parity());
  }
  /// One lane arrives for its warp, after the reads of all. Who does not release a slot may be lapped by its rounds, so
  /// all do that wait for it: where stages are taken by turns, only the one whose turn it is, for both.
  __device__ __forceinline__ void release(RingPlace<kSlots> place) const {
    __syncwarp();
    barrier_arrive_elected(shared_address(&shared_.empty[place.slot()]), by_turns_ ? kGroups : 1);
  }
  /// Of Q, or of a task's last stage where both warpgroups used its slots: each for itself.
  __device__ __forceinline__ void release_shared(int slot) const {
    __syncwarp();
    barrier_arrive_elected(shared_address(&shared_.empty[slot]), 1);
  }

  /// \param halves of the task: 1: both warpgroups have the same rows, and take stages by turns
  __device__ __forceinline__ void begin(int halves) { by_turns_ = halves == 1; }
  /// Past a slot of Q.
  __device__ __forceinline__ void pass_queries() { place_.advance(); }
  /// Once all of Q is passed.
  __device__ __forceinline__ void begin_stages() {
    stages_before_ = 0;
    done_ = false;
    view_batch(1);
  }

  /// Walks on to a stage that the warpgroup computes, and past it. \return kFarOff: more stages are to be passed
  __device__ __forceinline__ Found find(int most_passed) {
    if ((traits_ & StageTraits::kSeen) != 0) return take_stage();
    while (!done_) {
      const std::uint32_t seen = traits_ & StageTraits::kEach * StageTraits::kSeen;
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
      if (done_) break;
      wait_for_batch();
      view_batch(0);
    }
    return Found::kEnd;
  }
  /// What the last `find` came to.
  __device__ __forceinline__ const Stage& found() const { return found_; }
  /// Its record, until the next `find`.
  __device__ __forceinline__ const StageRecord& record() const { return shared_.records[batch_.slot()][number_ - 1]; }

  /// The slots of a stage that is the last of rows that both warpgroups have serve them to add up their sums.
  __device__ __forceinline__ bool keeps_slots(const Stage& stage) const { return by_turns_ && stage.last(); }

 private:
  __device__ __forceinline__ void wait_for_batch() const {
    barrier_wait(shared_address(&shared_.batch_full[batch_.slot()]), batch_.parity());
  }
  __device__ __forceinline__ bool owns(unsigned stage) const { return !by_turns_ || ((stage ^ group_) & 1) == 0; }

  // The stage at hand is one that the warpgroup computes.
  __device__ __forceinline__ Found take_stage() {
    std::uint32_t traits = traits_ & (Stage::kLast - 1);
    if (number_ + 1 == end_ && ends_task_) traits |= Stage::kLast;
    found_ = Stage(place_, traits);
    step();
    return Found::kStage;
  }

  // \param first record that is a stage's
  __device__ __forceinline__ void view_batch(int first) {
    const StageRecord& batch = shared_.records[batch_.slot()][0];
    first_ = first;
    number_ = first;
    end_ = batch.batch_records;
    ends_task_ = batch.batch_ends_task != 0;
    traits_ = batch.batch_traits[half()] >> (StageTraits::kBits * first);
    // Those that are the other warpgroup's are not to be computed.
    constexpr std::uint32_t kEverySecond = StageTraits::kSeen * 0x01010101u;
    if (by_turns_) traits_ &= ~(owns(stages_before_) ? kEverySecond << StageTraits::kBits : kEverySecond);
  }

  __device__ __forceinline__ void leave_batch() {
    __syncwarp();
    barrier_arrive_elected(shared_address(&shared_.batch_empty[batch_.slot()]), 1);
    batch_.advance();
    stages_before_ = stage_of(end_);
  }

  /// Of the task, of a record of the batch.
  __device__ __forceinline__ unsigned stage_of(int number) const {
    return stages_before_ + static_cast<unsigned>(number - first_);
  }

  __device__ __forceinline__ void step() {
    place_.advance_by_two();
    ++number_;
    traits_ >>= StageTraits::kBits;
  }

  __device__ __forceinline__ void pass(int stages) {
#pragma unroll 1
    while (stages > 0) {
      const int together = least(stages, kPassedTogether);
      if (!by_turns_ || together > 1 || owns(stage_of(number_))) pass_slots(together);
      place_ = place_.ahead(2 * together);
      number_ += together;
      traits_ >>= StageTraits::kBits * together;
      stages -= together;
    }
  }

  // Who passed a stage without waiting could come to its slot's next round while this one is still under way, of which
  // a parity does not tell. Not so where stages are taken by turns: the slot's next one is this warpgroup's own again
  // (the ring holds an even number of stages), Q, for which both wait, or of a task that begins after both have met.
  // A lane for each slot.
  __device__ __forceinline__ void pass_slots(int stages) const {
    static_assert(kSlots % (2 * kGroups) == 0 && 2 * kPassedTogether <= kSlots);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int number = number_ + lane / 2;
    if (lane < 2 * stages && owns(stage_of(number))) {
      const RingPlace<kSlots> place = place_.ahead(lane);
      wait_for(place);
      if ((traits_ & StageTraits::kByRow * StageTraits::kEach) != 0) fence_ordinary_writes();
      const bool kept = by_turns_ && ends_task_ && number + 1 == end_;
      if (!kept) barrier_arrive_times(shared_address(&shared_.empty[place.slot()]), by_turns_ ? kGroups : 1);
    }
    __syncwarp();
  }

  SharedMemory& shared_;
  unsigned group_;
  RingPlace<kSlots> place_;
  RingPlace<kBatches> batch_;
  Stage found_;
  unsigned stages_before_ = 0;  // of the task, before the batch
  int first_ = 0;               // the batch's first record that is a stage's
  int number_ = 0;              // the record at hand, in its batch
  int end_ = 0;                 // of the batch's records
  std::uint32_t traits_ = 0;    // StageTraits from the one at hand on; kSeen only where the warpgroup computes it
  bool ends_task_ = false;      // the batch does
  bool done_ = false;
  bool by_turns_ = false;
};

}  // namespace trunkline::cuda::sm90
