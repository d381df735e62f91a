// What the kernel reads: plain data for host and device.
#pragma once

#include <vector_types.h>

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/row_state.hpp"

namespace trunkline::cuda::single_query {

/// Where the clusters of a head merge, if it has several: un-normalised sums of weighted V in fp32, with their rows'
/// largest logit and sum of weights.
struct Scratch {
  float4* sums;           // [Hkv, clusters, g * kRowUnits]
  RowState* states;       // [Hkv, clusters, g]
  std::int32_t* arrived;  // [Hkv, CTAs of a cluster] clusters whose sums have come; 0 before and after a run
};

struct SingleQueryArgs {
  // Of the plan: all of its items are of the one query, where there is one. How it cuts tokens is of no account.
  const ListCounts* counts;
  const ItemRow* row;
  const std::int64_t* ids_begin;  // ResolveArgs::first_ids
  DevicePages pages;
  // From one slice of a warp to its next, whole pages and places.
  std::int32_t pages_on;
  std::int32_t places_on;
  LayerArgs layer;
  Scratch scratch;
  std::int32_t clusters;  // of a head
};

}  // namespace trunkline::cuda::single_query
