// Arguments of the single-query kernel: plain data for host and device.
#pragma once

#include <vector_types.h>

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/row_state.hpp"

namespace trunkline::cuda::single_query {

/// Device memory in which the clusters of a head merge, if it has several: un-normalised O in fp32, and the maximal
/// logit and the sum of weights of each row.
struct Scratch {
  float4* sums;           // [Hkv, clusters, g * kRowUnits]
  RowState* states;       // [Hkv, clusters, g]
  std::int32_t* arrived;  // [Hkv, CTAs of a cluster] clusters whose sums have arrived; 0 before and after a run
};

struct SingleQueryArgs {
  // From the plan: all items are of the one query, if there is one. The plan's cuts are ignored.
  const ListCounts* counts;
  const ItemRow* row;
  const std::int64_t* ids_begin;  // ResolveArgs::first_ids
  DevicePages pages;
  // The distance from a slice of a warp to its next: whole pages, and the rest as a page offset.
  std::int32_t pages_step;
  std::int32_t page_offset_step;
  LayerArgs layer;
  Scratch scratch;
  std::int32_t clusters;  // clusters of a head
};

}  // namespace trunkline::cuda::single_query
