// The lists of a plan in device memory, which kernels read.
#pragma once

#include <cstdint>

#include "plan/uploaded_plan.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// The lists have the capacities of PlanCapacity: queries, items and spans. item_queries and item_outputs have queries
/// + partials entries, masks has PlannerMachine::mask_capacity entries of two words, merge_queries has one entry for
/// each query and merge_begin one more, merge_slots and partial_merges have partials entries, and schedule has items.
struct PlanLists {
  ListCounts* counts = nullptr;
  RowQuery* queries = nullptr;
  WorkItem* items = nullptr;
  std::int32_t* item_queries = nullptr;
  std::int32_t* item_outputs = nullptr;
  RowSpan* spans = nullptr;
  std::uint64_t* masks = nullptr;  // [masks, 2]
  std::int32_t* merge_queries = nullptr;
  std::int32_t* merge_begin = nullptr;
  std::int32_t* merge_slots = nullptr;
  std::int32_t* partial_merges = nullptr;  // null: not wanted
  std::int32_t* schedule = nullptr;
};

}  // namespace trunkline
