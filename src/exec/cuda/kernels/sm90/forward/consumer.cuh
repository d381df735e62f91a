// A consumer warpgroup: takes stages from the ring, attends, writes outputs.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/arrivals.cuh"
#include "exec/cuda/kernels/common/head_scale.cuh"
#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/soft_cap.cuh"
#include "exec/cuda/kernels/sm90/forward/attend.cuh"
#include "exec/cuda/kernels/sm90/forward/epilogue.cuh"
#include "exec/cuda/kernels/sm90/forward/shared_memory.cuh"
#include "exec/cuda/kernels/sm90/forward/stage_walk.cuh"
#include "exec/cuda/kernels/sm90/forward/tma.cuh"

namespace trunkline::cuda::sm90 {

/// \tparam S Traits \tparam kMerges whether this kernel merges a query's partials once it has all
/// of them
template <class Element, class S, bool kMerges>
class Consumer {
  using Walk = StageWalk<S>;
  using Found = typename Walk::Found;
  using SlotPosition = typename Walk::SlotPosition;
  using Stage = typename Walk::Stage;

 public:
  __device__ __forceinline__ Consumer(const ForwardArgs& args, SharedMemory<S>& shared, int group, int thread)
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
  // The masks of a stage for the lane's rows.
  struct Masked {
    uint4 visible;         // for each slice, the mask word with the queries of the lane's rows
    StageFlags flags;      // used if some slice is masked by token or is short
    SliceLengths lengths;  // used likewise; all whole if nothing is masked
  };

  // Applies the scales of a KV head. With a soft cap they come before it, and are in shared memory: no register is
  // spare.
  __device__ __forceinline__ void set_scales(std::int32_t head) {
    const float of_head = logit_scale_of(args_.layer, head);
    if (!has_soft_cap(args_.layer)) {
      rows_.set_scale(fabsf(args_.layer.scale_log2) * of_head);
      return;
    }
    __syncwarp();
    if (rows_.lane() == 0) shared_.cap_factors[warp()] = args_.layer.cap_factor * of_head;
    __syncwarp();
  }
  __device__ __forceinline__ float cap_factor() const {
    return S::kWidens ? shared_.cap_factors[warp()] : args_.layer.cap_factor;
  }
  __device__ __forceinline__ int warp() const { return kGroupThreads / 32 * group_ + rows_.thread() / 32; }

  __device__ __forceinline__ void begin(const TaskInfo& task) {
    rows_.block_optimization_of_lane();
    if constexpr (S::kWidens) set_scales(task.head);
    // Broadcast, so that the compiler knows that it is uniform.
    const int halves = __shfl_sync(kWholeWarp, task.halves, 0);
    walk_.begin(halves);
    const int half = walk_.half();
    for (int i = 0; i < halves; ++i, walk_.pass_queries()) {
      const SlotPosition position = walk_.position();
      walk_.wait_for(position);
      if (i == half) rows_.load_queries(shared_address(shared_.slots[position.slot()]), args_.layer.scale_log2 < 0);
      fence_ordinary_writes();  // Q was written by row copies; a TMA tile may come next
      walk_.release(position, false);
    }
    walk_.begin_stages();
    const int first = task.first_query[half];
    const std::uint8_t* row_query = task.row_query + kGroupRows * half + rows_.row();
    rows_.set_queries({row_query[0] - first, row_query[8] - first});
    rows_.clear();
  }

  // Attends to the task's stages, pipelined: a stage's logits are computed while the next stage is looked up, and its V
  // is added while the next stage's logits and row maxima are computed.
  __device__ __forceinline__ void attend() {
    while (walk_.find(INT32_MAX) == Found::kStage) {
      walk_.wait_for(walk_.found().keys());
      if (walk_.found().by_generic_proxy()) fence_ordinary_writes();
      rows_.begin_logits(rows_.word_of_keys(walk_.found().keys().slot()));
      products_commit();
      products_commit();  // an empty group in place of V
      values_ = SlotPosition::none();
      for (;;) {
        const Stage stage = walk_.found();
        Masked masked;
        if (stage.masked()) masked = take_record();
        // A vote, so that the compiler knows that it is uniform: products must not diverge.
        const bool more = __any_sync(kWholeWarp, walk_.find(S::kPassedAtMost) == Found::kStage) != 0;
        const Stage& next = walk_.found();
        rows_.template wait_for_logits<1>();
        if constexpr (S::kVaries) {
          if (has_soft_cap(args_.layer)) rows_.cap(cap_factor());
        }
        mask(stage, masked);
        // Computed here, beside the row maxima, and not where the products wait for them.
        const std::uint32_t next_keys = rows_.word_of_keys(next.keys().slot());
        const std::uint32_t values = rows_.word_of_values(stage.values().slot(), group_);
        const std::uint32_t next_keys_full = walk_.full(next.keys());
        const std::uint32_t values_full = walk_.full(stage.values());
        if (!stage.kept()) walk_.release(stage.keys(), stage.alone());
        rows_.row_max();
        rows_.exp_scores();
        fence_p();
        // Both mbarriers are tested at once, as each test takes 40 clocks; most often both slots are full. V is waited
        // for first: it is before that K in the ring, and no product is in flight while its ends are cleared.
        const bool keys_there = barrier_test(next_keys_full, next.keys().parity()) && !next.by_generic_proxy();
        const bool values_there = barrier_test(values_full, stage.values().parity()) && !stage.by_generic_proxy();
        if (!values_there) wait_for_values(stage, masked.lengths);
        if (S::kSplitsColumns || !more) add_values(stage, values);
        if (!more) break;
        if (!keys_there) wait_for_keys(next);
        if constexpr (S::kSplitsColumns) {
          rows_.clear_logits();
          rows_.begin_logits(next_keys);
          products_commit();
          products_commit();  // an empty group in place of V
          values_ = SlotPosition::none();
        } else {
          rows_.begin_logits(next_keys);
          products_commit();
          begin_values(stage, values);
        }
      }
    }
  }

  __device__ __forceinline__ void wait_for_keys(const Stage& stage) const {
    walk_.wait_for_near(stage.keys());
    if (stage.by_generic_proxy()) fence_ordinary_writes();
  }
  __device__ __forceinline__ void wait_for_values(const Stage& stage, SliceLengths lengths) const {
    walk_.wait_for_near(stage.values());
    if (!stage.by_generic_proxy()) return;
    if (!lengths.all_whole()) clear_ends(stage, lengths);
    fence_ordinary_writes();
    if (!lengths.all_whole()) named_barrier(kGroupBarrier + group_, kGroupThreads);
  }
  // Issues the products with V, whose slot is full.
  __device__ __forceinline__ void begin_values(const Stage& stage, std::uint32_t word) {
    values_ = stage.values();
    values_alone_ = stage.alone();
    rows_.begin_values(word);
    products_commit();
  }
  // Adds the V of a stage that is followed by the task's end, or by more than S::kPassedAtMost stages of the other
  // warpgroup; or of any stage, where there are no registers for the operands of both products at once.
  __device__ __forceinline__ void add_values(const Stage& stage, std::uint32_t word) {
    begin_values(stage, word);
    rows_.wait_for_values();
    if (!stage.kept()) walk_.release(values_, stage.alone());
  }

  // Completes the products with the V of the stage before, and rounds this stage's weights.
  __device__ __forceinline__ void fence_p() {
    rows_.wait_for_values();
    if (!values_.is_none()) walk_.release(values_, values_alone_);
    rows_.rescale();
    rows_.convert_p();
  }

  // Reads the masks of the stage that was found last, while its record is valid. Needed only if the stage is masked.
  __device__ __forceinline__ Masked take_record() const {
    const StageRecord& record = walk_.record();
    const auto* words = record.visible[walk_.half()][rows_.word_of_queries()];
    return {*reinterpret_cast<const uint4*>(words), StageFlags(record.flags), SliceLengths(record.lengths)};
  }

  __device__ __forceinline__ void mask(const Stage& stage, const Masked& masked) {
    static_assert(kSlices == 4);
    if (!stage.masked()) return;
    rows_.mask_slices(masked.visible);
    if (!masked.flags.some_uneven()) return;
    if (!masked.lengths.all_whole()) rows_.mask_ends(masked.lengths);
    const TokenMasks& masks = shared_.tokens[stage.keys().slot()];
    const std::uint32_t* of_token = masks.visible[walk_.half()][rows_.word_of_queries()];
    if (masked.flags.by_token(0)) rows_.template mask_tokens<0>(of_token);
    if (masked.flags.by_token(1)) rows_.template mask_tokens<1>(of_token);
    if (masked.flags.by_token(2)) rows_.template mask_tokens<2>(of_token);
    if (masked.flags.by_token(3)) rows_.template mask_tokens<3>(of_token);
  }

  // Makes V zero behind short slices: it may be NaN there, and 0 x NaN is NaN. Copying such slices row by row instead
  // took 2,250 clocks for each stage.
  __device__ __forceinline__ void clear_ends(const Stage& stage, SliceLengths lengths) const {
    constexpr int kChunks = kPanelRowBytes / 16;
    static_assert(kGroupThreads == kSliceTokens * kChunks);
    const int row = rows_.thread() / kChunks;
    const int chunk = rows_.thread() % kChunks;
    std::byte* const values = shared_.slots[stage.values().slot()];
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      if (row < lengths.of(slice)) continue;
      std::byte* const of_slice = values + slice * S::kSliceBytes;
#pragma unroll
      for (int panel = 0; panel < S::kPanels; ++panel) {
        *reinterpret_cast<uint4*>(of_slice + chunk_offset<S>(row, kChunks * panel + chunk)) = {0, 0, 0, 0};
      }
    }
  }

  __device__ __forceinline__ void write(TaskInfo& task) {
    rows_.block_optimization_of_lane();
    const Epilogue<Element, S> epilogue(args_, shared_, task, group_, rows_.thread());
    epilogue.add_up_sums(rows_);
    const bool both = task.halves == 1;  // both warpgroups hold the same rows
    const auto places = epilogue.find_places(rows_, both);
    if (both && !S::kSplitsColumns) {
      const SlotPosition v_position = walk_.position().back(1);
      const SlotPosition k_position = walk_.position().back(2);
      epilogue.exchange(rows_, k_position.slot(), v_position.slot());
      fence_ordinary_writes();
      walk_.release(k_position, false);
      walk_.release(v_position, false);
    }
    if (epilogue.write(rows_, places, both)) {
      epilogue.isolate_queries(both);
      rows_.clear_fragments();
    }
    if constexpr (kMerges) {
      if (task.has_partials != 0) {
        named_barrier(kConsumerBarrier, kConsumerThreads);  // all partials of the task are written
        merge_arrivals<Element, S::kDim, S::kVaries, kConsumerWarps>(args_, task, kConsumerBarrier);
        fence_ordinary_writes();  // to the task's entry, which a copy overwrites next
      }
    }
    note_end(task);
  }

  // Records the end of the task: the later of both warpgroups.
  __device__ __forceinline__ void note_end(const TaskInfo& task) const {
    if (args_.times == nullptr || rows_.thread() != 0) return;
    auto* const end = reinterpret_cast<unsigned long long*>(&args_.times[task.number].end_ns);
    atomicMax(end, static_cast<unsigned long long>(global_time()));
  }

  const ForwardArgs& args_;
  SharedMemory<S>& shared_;
  Walk walk_;
  int group_;
  GroupRows<Element, S> rows_;
  SlotPosition values_;  // position of the V that is being added, if any
  bool values_alone_;    // Stage::alone of that stage
};

}  // namespace trunkline::cuda::sm90
