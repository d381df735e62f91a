// Layout phase of planning, the last but one: cuts packs along KV and gives each pack its range in all lists of the
// plan. Runs in one thread group. Equal to the host's KvSplitter, PlanEmitter and Scheduler.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cost_classes.hpp"
#include "plan/device/cut_search.hpp"
#include "plan/device/draft_windows.hpp"
#include "plan/device/forest_layout.hpp"
#include "plan/device/invariant_groups.hpp"
#include "plan/device/layout_memory.hpp"
#include "plan/device/packs.hpp"
#include "plan/device/plan_growth.hpp"
#include "plan/device/plan_merges.hpp"
#include "plan/device/planner_machine.hpp"
#include "plan/device/requests.hpp"
#include "plan/device/span_walk.hpp"
#include "plan/device/thread_group.hpp"
#include "plan/device/tile_search.hpp"
#include "plan/device/tile_segments.hpp"
#include "plan/plan_lists.hpp"

namespace trunkline {

class PlanLayout {
 public:
  TRUNKLINE_HOST_DEVICE PlanLayout(const PlannerMachine& machine, const DeviceForest& forest,
                                   const DeviceRequests& requests, const SegmentPool& pool, const LayoutMemory& memory,
                                   const CutSearch::Scratch& cuts, const PlanLists& lists)
      : machine_(machine),
        forest_(forest),
        requests_(requests),
        pool_(pool),
        m_(memory),
        cuts_(cuts),
        lists_(lists),
        merges_(requests, memory, lists) {}

  /// \param tiles number of listed groups; a group whose tile exceeded the pool has kv_segments = -1
  template <class Group>
  TRUNKLINE_HOST_DEVICE void run(Group& group, std::int32_t tiles) const {
    cuts_.clear(group);
    PlanSummary plan;
    bool planned = false;
    const bool invariant = machine_.invariant_chunk > 0;
    if (forest_.query_begin[forest_.rows] > machine_.capacity.queries) {
      // The requests themselves exceed the capacity.
    } else if (invariant) {
      planned = lay_out_chunks(group, plan);
    } else {
      planned = lay_out_tiles(group, tiles, plan);
      const bool fallback = !planned;
      if (fallback) planned = lay_out_flat(group, plan);
      plan.fallbacks = fallback ? 1 : 0;
    }
    if (planned) {
      merges_.write(group, plan);
    } else {
      plan = PlanSummary{};
      plan.unplanned = 1;
      plan.growth = PlanGrowth::kUnlimited;
    }
    group.once([&] {
      *m_.summary = plan;
      *lists_.counts = {plan.items, plan.entries, plan.spans, plan.merges};
      lists_.merge_begin[plan.merges] = plan.partials;
    });
  }

 private:
  template <class Group>
  TRUNKLINE_HOST_DEVICE bool lay_out_tiles(Group& group, std::int32_t tiles, PlanSummary& plan) const {
    if (any(group, tiles, [&](std::int32_t i) { return m_.groups[i].kv_segments < 0; })) return false;
    const std::int32_t with_tokens = requests_.totals->with_tokens;
    add_single_groups(group, {with_tokens, forest_.rows}, tiles);
    return lay_out(group, tiles + forest_.rows - with_tokens, true, plan);
  }
  template <class Group>
  TRUNKLINE_HOST_DEVICE bool lay_out_chunks(Group& group, PlanSummary& plan) const {
    const std::int32_t groups =
        InvariantGroups(machine_, forest_, requests_, pool_, m_.groups, m_.group_room).list(group);
    return groups >= 0 && lay_out(group, groups, false, plan);
  }
  /// Lays out one uncut item for each request.
  template <class Group>
  TRUNKLINE_HOST_DEVICE bool lay_out_flat(Group& group, PlanSummary& plan) const {
    add_single_groups(group, {0, forest_.rows}, 0);
    return lay_out(group, forest_.rows, false, plan);
  }

  /// Adds one group for each request. \param requests range of DeviceForest::order \param first index of the first
  /// group
  template <class Group>
  TRUNKLINE_HOST_DEVICE void add_single_groups(Group& group, Range requests, std::int32_t first) const {
    group.for_each(requests.end - requests.begin, [&](std::int32_t i) {
      const std::int32_t place = requests.begin + i;
      const std::int32_t row = forest_.order[place];
      const std::int32_t kv_len = forest_.kv_len[row];
      PackGroup& to = m_.groups[first + i];
      to = PackGroup{};
      to.positions = requests_.positions({place, place + 1});
      to.max_queries = machine_.max_queries();
      to.first_kv_segment = pool_.single(place);
      to.kv_segments = 1;
      to.tokens = to.cut_tokens = kv_len;
      to.members = 1;
      to.open_tokens = kv_len;
      pool_.kv_segments[to.first_kv_segment] = {0, kv_len, row, 0, kv_len, to.positions, true};
    });
  }

  /// \param cut whether items may be cut along KV \return whether the plan fits the capacities
  template <class Group>
  TRUNKLINE_HOST_DEVICE bool lay_out(Group& group, std::int32_t groups, bool cut, PlanSummary& plan) const {
    plan = PlanSummary{};
    if (!make_packs(group, groups, plan.packs)) return false;
    plan.read_tokens = sum(group, plan.packs, [&](std::int32_t i) {
      m_.loads[i] = load_of(i);
      return m_.loads[i].tokens;
    });
    plan.total_tokens = forest_.total_tokens;
    plan.distinct_tokens = forest_.distinct_tokens;
    TaskCosts costs = machine_.batch_costs(requests_.totals->queries, requests_.totals->repeated_tokens);
    costs.set_rereads(requests_.totals->needed_tokens, plan.read_tokens);
    if (machine_.invariant_chunk > 0) {
      merges_.count_items(group, plan.packs);
      group.for_each(plan.packs, [&](std::int32_t i) { m_.loads[i].merged = merges_.merged_queries(m_.packs[i]); });
    }
    CutChoice::CostCap cap;
    if (cut) {
      cap = CutSearch(costs, true, cuts_).choose(group, m_.loads, plan.packs).cap;
    } else {
      group.for_each(plan.packs, [&](std::int32_t i) { m_.loads[i].price(costs); });
    }
    const std::int64_t items = sum(group, plan.packs, [&](std::int32_t i) {
      m_.packs[i].parts = cap == CutChoice::CostCap{} ? 1 : CutChoice::parts(m_.loads[i], cap);
      return std::int64_t{m_.packs[i].parts};
    });
    return items <= machine_.capacity.items && place_lists(group, costs, plan);
  }

  TRUNKLINE_HOST_DEVICE const PackGroup& group_of(std::int32_t pack) const { return m_.groups[m_.packs[pack].group]; }

  /// Returns the end of the pack that begins at a position of a group. Packs are as even as requests allow: if rows are
  /// padded, a full and a nearly empty pack would cost as much as two full ones.
  TRUNKLINE_HOST_DEVICE std::int32_t pack_end(const PackGroup& from, std::int32_t begin) const {
    const std::int32_t end = from.positions.end;
    if (end - begin <= from.max_queries) return end;
    const std::int32_t wanted = ceil_div(end - begin, ceil_div(end - begin, from.max_queries));
    // The number of requests that begin at or before a position.
    const auto requests_until = [&](std::int32_t position) {
      return partition_point(0, forest_.rows, [&](std::int32_t i) { return requests_.position[i] <= position; });
    };
    const std::int32_t between = requests_.position[requests_until(begin + wanted) - 1];
    if (between > begin) return between;
    return min(min(requests_.position[requests_until(begin)], end), begin + from.max_queries);
  }

  /// Splits groups into packs, each with at most as many queries as a tile holds.
  template <class Group>
  TRUNKLINE_HOST_DEVICE bool make_packs(Group& group, std::int32_t groups, std::int32_t& packs) const {
    const auto packs_of = [&](std::int32_t i) {
      std::int32_t count = 0;
      TRUNKLINE_ROLLED
      for (std::int32_t at = m_.groups[i].positions.begin; at < m_.groups[i].positions.end; ++count) {
        at = pack_end(m_.groups[i], at);
      }
      return count;
    };
    packs = group.exclusive_scan(groups, packs_of, [&](std::int32_t i, std::int32_t first) {
      const PackGroup& from = m_.groups[i];
      PlannedPack* to = m_.packs + first;
      TRUNKLINE_ROLLED
      for (std::int32_t at = from.positions.begin; at < from.positions.end && to < m_.packs + m_.pack_room; ++to) {
        PlannedPack pack;
        pack.group = i;
        pack.positions = {at, pack_end(from, at)};
        pack.width = from.width >= 0 ? from.width : machine_.width_for(pack.queries());
        pack.first_half = machine_.first_half(pack.width, pack.queries());
        *to = pack;
        at = pack.positions.end;
      }
    });
    return packs <= m_.pack_room;
  }

  TRUNKLINE_HOST_DEVICE TaskLoad load_of(std::int32_t i) const {
    const PlannedPack& pack = m_.packs[i];
    const PackGroup& from = m_.groups[pack.group];
    const bool halves = pack.first_half > 0 && pack.first_half < pack.queries();
    TaskLoad load;
    load.tokens = from.tokens;
    load.matrix_tokens = from.uniform ? from.tokens * (halves ? 2 : 1) : from.matrix_tokens;
    load.rows = machine_.costs.rows(pack.queries(), machine_.widths[pack.width].rows, pack.first_half > 0);
    load.queries = pack.queries();
    load.changes = halves ? machine_.costs.half_changes(load.tokens, load.matrix_tokens, load.queries) : 0;
    return load;
  }

  TRUNKLINE_HOST_DEVICE SpanWalk walk_of(std::int32_t pack) const {
    return {forest_, requests_, machine_.slices, m_.packs[pack], group_of(pack)};
  }
  TRUNKLINE_HOST_DEVICE const KvSegment* kv_segments_of(std::int32_t pack) const {
    return pool_.kv_segments + group_of(pack).first_kv_segment;
  }

  template <class Group>
  TRUNKLINE_HOST_DEVICE bool place_lists(Group& group, const TaskCosts& costs, PlanSummary& plan) const {
    using Counts = LayoutMemory::Counts;
    const PlanCapacity& room = machine_.capacity;
    merges_.count_items(group, plan.packs);
    if (merges_.count_partials(group) > room.partials) return false;
    group.for_each_warp(plan.packs, [&](std::int32_t i, auto& warp) {
      const SpanCounts spans = count_spans_of(warp, i);
      const std::int64_t parts = m_.packs[i].parts;
      warp.once([&] {
        m_.counts[i] = {parts, parts * m_.packs[i].queries(), spans.spans, spans.masks, spans.windows};
      });
    });
    Counts all = place_packs(group, plan.packs);
    if (all.spans > room.spans) return false;
    if (all.windows > 0) {
      find_windows(group, plan.packs, static_cast<std::int32_t>(all.windows));
      all = place_packs(group, plan.packs);
    }
    if (all.masks > machine_.mask_capacity) return false;
    plan.items = static_cast<std::int32_t>(all.items);
    plan.entries = static_cast<std::int32_t>(all.entries);
    plan.spans = static_cast<std::int32_t>(all.spans);
    plan.masks = static_cast<std::int32_t>(all.masks);
    plan.windows = static_cast<std::int32_t>(all.windows);
    const std::int32_t open_ends = group.reduce(
        plan.packs, 1, [&](std::int32_t i) { return PlanGrowth::open_ends(group_of(i), m_.packs[i].parts); },
        [](std::int32_t a, std::int32_t b) { return max(a, b); });
    plan.growth = PlanGrowth::limit(open_ends, requests_.totals->with_tokens, plan.items, costs);
    write_schedule(group, costs, plan);
    return true;
  }

  /// Gives each pack its first index in each list. \return the lengths of the lists
  template <class Group>
  TRUNKLINE_HOST_DEVICE LayoutMemory::Counts place_packs(Group& group, std::int32_t packs) const {
    return group.exclusive_scan(
        packs, [&](std::int32_t i) { return m_.counts[i]; },
        [&](std::int32_t i, const LayoutMemory::Counts& before) {
          PlannedPack& pack = m_.packs[i];
          pack.first_item = static_cast<std::int32_t>(before.items);
          pack.first_entry = static_cast<std::int32_t>(before.entries);
          pack.first_span = static_cast<std::int32_t>(before.spans);
          pack.first_mask = static_cast<std::int32_t>(before.masks);
          pack.first_window = static_cast<std::int32_t>(before.windows);
        });
  }

  template <class Warp>
  TRUNKLINE_HOST_DEVICE SpanCounts count_spans_of(Warp& warp, std::int32_t pack) const {
    const PackGroup& from = group_of(pack);
    const KvSegment* const kv_segments = kv_segments_of(pack);
    const SpanWalk walk = walk_of(pack);
    if (forest_.has_trees || walk.shares_group()) {
      return sum(warp, from.kv_segments, [&](std::int32_t k) { return count_spans(walk, kv_segments[k]); });
    }
    // One span for each KV segment, and one more for each cut inside a KV segment.
    const PackCuts& cuts = walk.cuts();
    const SpanCounts more = sum(warp, cuts.parts - 1, [&](std::int32_t part) {
      const std::int64_t cut = cuts.begin(part + 1);
      const KvSegment& before = kv_segments
          [partition_point(0, from.kv_segments, [&](std::int32_t k) { return kv_segments[k].first_token < cut; }) - 1];
      const bool inside = before.first_token + before.length > cut;
      return SpanCounts{inside ? 1 : 0, inside && walk.is_masked(before.readers) ? 1 : 0, 0};
    });
    return more + SpanCounts{from.kv_segments, from.uniform ? 0 : from.masked, 0};
  }

  /// Lists the windows of draft trees and counts the masks of their leaders.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void find_windows(Group& group, std::int32_t packs, std::int32_t windows) const {
    group.for_each_warp(packs, [&](std::int32_t i, auto& warp) {
      if (m_.counts[i].windows == 0) return;
      visit_spans(
          warp, walk_of(i), kv_segments_of(i), group_of(i).kv_segments,
          [&](const WalkedSpan& span, const SpanCounts& before) {
            if (span.drafts.begin >= span.drafts.end) return;
            DraftWindow& window = m_.windows[m_.packs[i].first_window + before.windows];
            window.span = span;
            window.pack = i;
            window.plain_before = before.masks;
          },
          [](std::int32_t, std::int32_t) {});
    });
    DraftWindows(forest_, requests_, m_.packs, m_.windows).find_leaders(group, windows);
    group.for_each(packs, [&](std::int32_t i) {
      const std::int32_t first = m_.packs[i].first_window;
      const std::int32_t end = first + static_cast<std::int32_t>(m_.counts[i].windows);
      m_.counts[i].masks += m_.windows[end].masks_before - m_.windows[first].masks_before;
    });
  }

  /// Sorts items by descending cost class, then by index.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void write_schedule(Group& group, const TaskCosts& costs, const PlanSummary& plan) const {
    group.for_each_warp(plan.packs, [&](std::int32_t i, auto& warp) {
      const PlannedPack& pack = m_.packs[i];
      const PackCuts cuts{group_of(i).cut_tokens, pack.parts};
      warp.for_each(pack.parts, [&](std::int32_t part) {
        const std::int64_t tokens = cuts.begin(part + 1) - cuts.begin(part);
        const Nanoseconds cost = pack.parts == 1 ? m_.loads[i].whole : cut_cost(m_.loads[i], costs, pack.parts, tokens);
        const auto longer = static_cast<std::uint32_t>(CostClasses::kClasses - CostClasses::class_of(cost));
        m_.keys[pack.first_item + part] = longer << kItemBits | static_cast<std::uint32_t>(pack.first_item + part);
      });
    });
    group.sort(m_.keys, plan.items);
    group.for_each(plan.items, [&](std::int32_t i) {
      lists_.schedule[i] = static_cast<std::int32_t>(m_.keys[i] & ((1u << kItemBits) - 1));
    });
  }

  static constexpr int kItemBits = 18;  // PlannerMachine refuses more items

  const PlannerMachine& machine_;
  const DeviceForest& forest_;
  const DeviceRequests& requests_;
  const SegmentPool& pool_;
  const LayoutMemory& m_;
  const CutSearch::Scratch& cuts_;
  const PlanLists& lists_;
  PlanMerges merges_;
};

}  // namespace trunkline
