// Merge lists: the queries that more than one item holds, and the partials that are merged for each.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/layout_memory.hpp"
#include "plan/device/packs.hpp"
#include "plan/device/requests.hpp"
#include "plan/device/thread_group.hpp"
#include "plan/plan_lists.hpp"

namespace trunkline {

class PlanMerges {
 public:
  TRUNKLINE_HOST_DEVICE PlanMerges(const DeviceRequests& requests, const LayoutMemory& memory, const PlanLists& lists)
      : requests_(requests), m_(memory), lists_(lists) {}

  /// Counts the items that hold each query. Must be called first.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void count_items(Group& group, std::int32_t packs) const {
    group.for_each(requests_.totals->queries, [&](std::int32_t query) { m_.items_of[query] = 0; });
    group.for_each_warp(packs, [&](std::int32_t i, auto& warp) {
      const PlannedPack& pack = m_.packs[i];
      warp.for_each(pack.queries(), [&](std::int32_t k) {
        Group::fetch_add(m_.items_of[requests_.query_at[pack.positions.begin + k]], pack.parts);
      });
    });
  }

  /// \return partials of all queries
  template <class Group>
  TRUNKLINE_HOST_DEVICE std::int64_t count_partials(Group& group) const {
    return sum(group, requests_.totals->queries, [&](std::int32_t query) { return std::int64_t{partials_of(query)}; });
  }

  /// \return the number of queries of a pack that more than one item holds
  TRUNKLINE_HOST_DEVICE std::int32_t merged_queries(const PlannedPack& pack) const {
    std::int32_t merged = 0;
    TRUNKLINE_ROLLED
    for (std::int32_t p = pack.positions.begin; p < pack.positions.end; ++p) {
      merged += m_.items_of[requests_.query_at[p]] > 1 ? 1 : 0;
    }
    return merged;
  }

  /// Writes the merge lists. Slots are numbered query by query, so that a merge reads one run of partials.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void write(Group& group, PlanSummary& plan) const {
    const Counts all = group.exclusive_scan(
        requests_.totals->queries,
        [&](std::int32_t query) {
          const std::int32_t partials = partials_of(query);
          return Counts{partials, partials > 0 ? 1 : 0};
        },
        [&](std::int32_t query, const Counts& before) {
          const std::int32_t partials = partials_of(query);
          m_.first_slot[query] = partials > 0 ? before.partials : kDirect;
          if (partials == 0) return;
          lists_.merge_queries[before.merges] = query;
          lists_.merge_begin[before.merges] = before.partials;
          TRUNKLINE_ROLLED
          for (std::int32_t slot = before.partials; slot < before.partials + partials; ++slot) {
            lists_.merge_slots[slot] = slot;
            if (lists_.partial_merges != nullptr) lists_.partial_merges[slot] = before.merges;
          }
        });
    plan.partials = all.partials;
    plan.merges = all.merges;
  }

 private:
  struct Counts {
    std::int32_t partials = 0;
    std::int32_t merges = 0;

    TRUNKLINE_HOST_DEVICE friend Counts operator+(const Counts& a, const Counts& b) {
      return {a.partials + b.partials, a.merges + b.merges};
    }
  };

  TRUNKLINE_HOST_DEVICE std::int32_t partials_of(std::int32_t query) const {
    return m_.items_of[query] > 1 ? m_.items_of[query] : 0;
  }

  const DeviceRequests& requests_;
  const LayoutMemory& m_;
  const PlanLists& lists_;
};

}  // namespace trunkline
