// Last phase of planning: writes items, their queries and outputs, and spans with their masks. One thread group for
// each pack. Equal to the host's PlanEmitter.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/draft_windows.hpp"
#include "plan/device/forest_layout.hpp"
#include "plan/device/plan_layout.hpp"
#include "plan/device/planner_machine.hpp"
#include "plan/device/requests.hpp"
#include "plan/device/span_walk.hpp"
#include "plan/device/thread_group.hpp"
#include "plan/device/tile_segments.hpp"
#include "plan/plan_lists.hpp"

namespace trunkline {

/// Writes the queries of a range of rows.
template <class Group>
TRUNKLINE_HOST_DEVICE void write_queries(Group& group, const DeviceForest& forest, Range rows, const PlanLists& lists) {
  group.for_each_warp(rows.end - rows.begin, [&](std::int32_t i, auto& warp) {
    const std::int32_t row = rows.begin + i;
    const std::int32_t first = forest.query_begin[row];
    const std::int32_t queries = forest.queries(row);
    warp.for_each(queries, [&](std::int32_t token) {
      lists.queries[first + token] = {row, first + token, queries - 1 - token};
    });
  });
}

class PlanWriter {
 public:
  TRUNKLINE_HOST_DEVICE PlanWriter(const PlannerMachine& machine, const DeviceForest& forest,
                                   const DeviceRequests& requests, const SegmentPool& pool, const LayoutMemory& memory,
                                   const PlanLists& lists)
      : machine_(machine), forest_(forest), requests_(requests), pool_(pool), m_(memory), lists_(lists) {}

  template <class Group>
  TRUNKLINE_HOST_DEVICE void write(Group& group, std::int32_t number) const {
    const PlannedPack pack = m_.packs[number];
    const PackGroup& from = m_.groups[pack.group];
    const PackCuts cuts{from.cut_tokens, pack.parts};
    group.for_each(pack.parts, [&](std::int32_t part) {
      WorkItem& item = lists_.items[pack.first_item + part];
      const std::int32_t first = pack.first_entry + part * pack.queries();
      item.queries = {first, first + pack.queries()};
      item.tile = machine_.tile(pack.width, cuts.begin(part + 1) - cuts.begin(part));
      item.first_half = pack.first_half;
    });
    group.for_each(pack.parts * pack.queries(), [&](std::int32_t i) {
      const std::int32_t part = i / pack.queries();
      const std::int32_t query = requests_.query_at[pack.positions.begin + i - part * pack.queries()];
      const std::int32_t slot = m_.first_slot[query];
      lists_.item_queries[pack.first_entry + i] = query;
      lists_.item_outputs[pack.first_entry + i] = slot == kDirect ? kDirect : slot + from.first_output + part;
    });
    const SpanWalk walk(forest_, requests_, machine_.slices, pack, from);
    // The items of a pack have consecutive runs of spans: each run ends where the next begins.
    WorkItem* const items = lists_.items + pack.first_item;
    const SpanCounts all = visit_spans(
        group, walk, pool_.kv_segments + from.first_kv_segment, from.kv_segments,
        [&](const WalkedSpan& span, const SpanCounts& before) { write_span(pack, span, before); },
        [&](std::int32_t part, std::int32_t before) {
          if (part == 0) return;
          items[part].spans.begin = items[part - 1].spans.end = pack.first_span + before;
        });
    group.once([&] {
      items[0].spans.begin = pack.first_span;
      items[pack.parts - 1].spans.end = pack.first_span + all.spans;
    });
  }

 private:
  TRUNKLINE_HOST_DEVICE void write_span(const PlannedPack& pack, const WalkedSpan& span,
                                        const SpanCounts& before) const {
    const std::int32_t place = pack.first_span + before.spans;
    std::int32_t mask = -1;
    if (span.drafts.begin < span.drafts.end) {
      mask = write_window(pack.first_window + before.windows);
    } else if (span.masked) {
      mask = pack.first_mask + before.masks;
      if (m_.summary->windows > 0) mask += windows().masks_before(pack, pack.first_window + before.windows);
      const std::int32_t begin = max(span.readers.begin, pack.positions.begin) - pack.positions.begin;
      const std::int32_t end = min(span.readers.end, pack.positions.end) - pack.positions.begin;
      lists_.masks[2 * std::int64_t{mask}] = bits(begin, end);
      lists_.masks[2 * std::int64_t{mask} + 1] = bits(begin - 64, end - 64);
    }
    lists_.spans[place] = {span.row, span.begin, span.end, mask, span.flags};
  }
  /// Writes the masks of a window if it is their leader. \return index of the first mask
  TRUNKLINE_HOST_DEVICE std::int32_t write_window(std::int32_t number) const {
    const DraftWindow& window = m_.windows[number];
    const std::int32_t mask = windows().mask_of(number);
    if (window.leader != number) return mask;
    const DraftMasks masks = windows().masks_of(window);
    const Range drafts = window.span.drafts;
    TRUNKLINE_ROLLED
    for (std::int32_t draft = drafts.begin; draft < drafts.end; ++draft) {
      const DraftMask words = masks.mask_of(draft);
      const std::int64_t at = 2 * (std::int64_t{mask} + draft - drafts.begin);
      lists_.masks[at] = words.low;
      lists_.masks[at + 1] = words.high;
    }
    return mask;
  }
  TRUNKLINE_HOST_DEVICE DraftWindows windows() const { return {forest_, requests_, m_.packs, m_.windows}; }
  /// Returns a word with the bits [begin, end) set, clipped to [0, 64).
  TRUNKLINE_HOST_DEVICE static std::uint64_t bits(std::int32_t begin, std::int32_t end) {
    const std::int32_t first = max(begin, 0);
    const std::int32_t last = min(end, 64);
    return first < last ? ~std::uint64_t{0} >> (64 - (last - first)) << first : 0;
  }

  const PlannerMachine& machine_;
  const DeviceForest& forest_;
  const DeviceRequests& requests_;
  const SegmentPool& pool_;
  const LayoutMemory& m_;
  const PlanLists& lists_;
};

}  // namespace trunkline
