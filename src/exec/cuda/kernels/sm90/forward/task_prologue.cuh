// Task prologues, written once a step (task_prologues.cu): two copies, which need only the task's number, bring a CTA
// all that it needs to begin a task. Reading header, queries, spans, masks and page ids in turn took 7,000 clocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/sm90/forward/config.hpp"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"

namespace trunkline::cuda::sm90 {

/// An item, for all warps but the scheduler.
struct alignas(16) ItemInfo {
  std::int32_t item;  // index in the plan
  std::int32_t queries;
  std::int32_t halves;                // 2: each warpgroup holds its own rows; 1: both hold the rows of the first half
  std::int32_t has_partials;          // 1: some of its queries write partials
  std::int32_t half_rows[kGroups];    // live rows of each half
  std::int32_t first_query[kGroups];  // first query of each half
  std::uint8_t row_query[kMaxTileQueries];  // query of each row; the second half's rows are from 64 on
  ItemRow rows[kMaxTileQueries];            // the item's queries
};

struct TaskPrologue {
  ItemInfo info;
  StageRecord records[kBatchStages];  // the first batch, written for copies by TMA
  std::int32_t min_limit;             // minimum of the limits of the item's queries
  std::int32_t spare[3];              // 0: padding to a multiple of 16 bytes
};
static_assert(sizeof(TaskPrologue) % 16 == 0 && sizeof(StageRecord) % 16 == 0 && offsetof(ItemInfo, rows) % 16 == 0);

/// Slices of the first batch, whose first record is of Q.
inline constexpr int kPrologueSlices = kSlices * (kBatchStages - 1);

__device__ __forceinline__ const TaskPrologue& prologue_at(const StepArgs& args, std::int32_t place) {
  return reinterpret_cast<const TaskPrologue*>(args.step.prologues)[place];
}

}  // namespace trunkline::cuda::sm90
