// What tasks begin with, laid out once a step (task_prologues.cu): from a task's number alone two copies then bring a
// CTA all that it needs to begin, where reading header, queries, spans, masks and page ids in turn took it 7,000
// clocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/sm90/forward/config.hpp"
#include "exec/cuda/kernels/sm90/forward/stage_record.cuh"

namespace trunkline::cuda::sm90 {

/// An item, as all warps but the walking one see it.
struct alignas(16) ItemInfo {
  std::int32_t item;  // of the plan
  std::int32_t queries;
  std::int32_t halves;                // 2: each warpgroup has rows of its own; 1: both have those of the first half
  std::int32_t has_partials;          // of some of its queries
  std::int32_t half_rows[kGroups];    // live rows of each
  std::int32_t first_query[kGroups];  // of each
  std::uint8_t row_query[kMaxTileQueries];  // of the item; the second half's rows are from 64 on
  ItemRow rows[kMaxTileQueries];            // its queries
};

struct TaskPrologue {
  ItemInfo info;
  StageRecord records[kBatchStages];  // its first batch, as if TMA tiles brought all that they can
  std::int32_t least_limit;           // of its queries
  std::int32_t spare[3];              // 0: prologues are multiples of 16 bytes
};
static_assert(sizeof(TaskPrologue) % 16 == 0 && sizeof(StageRecord) % 16 == 0 && offsetof(ItemInfo, rows) % 16 == 0);

/// Slices of the first batch: the first record is of Q.
inline constexpr int kPrologueSlices = kSlices * (kBatchStages - 1);

__device__ __forceinline__ const TaskPrologue& prologue_at(const StepArgs& args, std::int32_t place) {
  return reinterpret_cast<const TaskPrologue*>(args.step.prologues)[place];
}

}  // namespace trunkline::cuda::sm90
