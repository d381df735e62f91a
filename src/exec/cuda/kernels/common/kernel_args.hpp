// Kernel arguments: the uploaded plan, the resolved step, one layer's tensors. Plain data for host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/resolved.hpp"
#include "plan/plan_lists.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::cuda {

/// The uploaded plan, device pointers.
template <class T>
using DeviceList = const T*;
struct DevicePlan : PlanListsOf<DeviceList> {
  const ListCounts* counts = nullptr;
};

/// An item as tasks read it, at live lengths. One read gives its queries and its first span: from cold memory, each
/// read that depends on another takes most of a microsecond.
struct alignas(64) TaskHeader {
  ResolvedSpan first;  // the span at spans.begin
  Range spans;         // into DeviceStep::spans
  Range rows;          // into DeviceStep::rows
  std::int32_t item;   // index in the plan
  std::int32_t tile_m;
  std::int32_t tile_n;
  std::int32_t has_partials;  // 1: some of its queries write partials
  std::int32_t first_half;    // WorkItem::first_half
  // The item's prologue (DeviceStep::prologues); 0 if the kernel family has none.
  std::int16_t prologue_records;
  std::int16_t prologue_ends;  // 1: the prologue has all of the item's tokens
};

/// A query of an item.
struct alignas(16) ItemRow {
  std::int32_t token;   // its row in Q and O
  std::int32_t limit;   // KV positions from here on come after the query, and are masked
  std::int32_t output;  // its partial slot, or kDirect
  std::int32_t spare;   // 0: padding to whole 16-byte words
};

/// The results of resolve(), device pointers.
struct DeviceStep {
  TaskHeader* tasks;     // [items], in the order of the plan's schedule
  ItemRow* rows;         // [item_queries]
  ResolvedSpan* spans;   // [spans]
  std::byte* prologues;  // [items, KernelFamily::prologue_bytes], indexed like tasks; unused if the family has none
};

/// The page table of CudaBatch, as passed to kernels.
struct DevicePages {
  const void* ids;
  std::int32_t wide_ids;  // 64-bit ids
  std::int32_t page_size;
};

struct CacheStrides {  // in elements
  std::int64_t page;
  std::int64_t token;
  std::int64_t head;
};

/// A factor of each KV head's elements.
struct HeadScale {
  const float* heads;  // null: 1
  std::int64_t stride;
};

/// One layer's tensors.
struct LayerArgs {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* lse;  // null: not written
  std::int64_t q_token;
  std::int64_t q_head;
  CacheStrides k_strides;
  CacheStrides v_strides;
  std::int64_t out_token;
  std::int64_t out_head;
  std::int64_t lse_token;
  std::int64_t lse_head;
  const float* sinks;    // [Hq] natural logits that count once in each softmax; null: none
  float scale_log2;      // scale * log2(e): logits in base 2. With a soft cap: cap * log2(e), with the sign of scale
  float cap_factor;      // |scale| / cap: what cap_logit() multiplies Q K by; 0: no soft cap
  float v_factor;        // multiplies O
  float lse_factor;      // converts a base-2 LSE to the caller's base: ln 2 or 1
  std::int32_t out_f32;  // 1: O is fp32; 0: O has Q's type
  std::int32_t q_heads;
  std::int32_t kv_heads;
  std::int32_t group_size;
  std::int32_t kv_e5m2;  // K and V of 8 bits: 1 if they are e5m2, else e4m3
  HeadScale q_scale;     // scales of the tensors that differ by KV head; those that do not are in scale_log2
  HeadScale k_scale;
  HeadScale v_scale;  // with v_factor

  /// Whether the layer has a soft cap, sinks or a factor of V, which some kernels lack the code for.
  bool varies() const { return cap_factor != 0 || sinks != nullptr || v_factor != 1; }
};

/// Un-merged outputs: normalised O in fp32 and LSE in base 2.
struct Partials {
  float* out;  // [partials, Hq, d]
  float* lse;  // [partials, Hq]
};

/// Arguments that are the same for all layers of a step.
struct StepArgs {
  DevicePlan plan;
  DeviceStep step;
  DevicePages pages;
};

struct ForwardArgs : StepArgs {
  LayerArgs layer;
  Partials partials;
  std::int32_t* next_task;  // the queue's front; 0 before and after a run
  std::int32_t* done;       // CTAs that have left; 0 before and after a run
  std::int32_t places;      // maximum length of the schedule of any uploaded plan
  std::int32_t tile_m;      // kStreams, kSerial: run items with this tile only; 0: all items
  std::int32_t tile_n;
  std::int32_t* arrived;  // kFused: [merges, Hkv] partials that have arrived; 0 before and after a run. Else null
  experimental::CudaTaskTime* times;  // [tasks]; null: not recorded
  // [items, Hkv] a linked list for each CTA of its tasks with a NaN among their outputs: an entry is the task before it
  // in the list, or -1. Written and read within a launch, by the portable kernels only.
  std::int32_t* nan_tasks;
};

struct MergeArgs {
  DevicePlan plan;
  LayerArgs layer;
  Partials partials;
};

/// Arguments of cuda_merge_states: rows of a caller's states. All strides are in elements.
struct MergeStatesArgs {
  const void* states;
  const float* lse;
  std::int64_t state_stride;
  std::int64_t state_head_stride;
  std::int64_t lse_stride;
  std::int64_t lse_head_stride;
  const std::int32_t* begin;
  const std::int32_t* slots;  // null: slots in order
  void* out;
  float* out_lse;  // null: not written
  std::int64_t out_row_stride;
  std::int64_t out_head_stride;
  std::int64_t out_lse_row_stride;
  std::int64_t out_lse_head_stride;
  float to_base_two;    // factor of input LSEs
  float from_base_two;  // factor of output LSEs
  std::int32_t rows;
  std::int32_t q_heads;
  DType states_dtype;
  DType out_dtype;
};

}  // namespace trunkline::cuda
