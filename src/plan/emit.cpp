#include "plan/emit.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"

namespace trunkline {
namespace {

void emit_queries(const Forest& forest, std::int32_t count, Plan& plan) {
  plan.queries.resize(static_cast<std::size_t>(count));
  for (const ForestRequest& request : forest.requests) {
    for (std::int32_t token = 0; token < request.queries; ++token) {
      plan.queries[static_cast<std::size_t>(request.query_begin + token)] = {request.slot, request.generation, token,
                                                                             request.queries - 1 - token};
    }
  }
}

bool read_by_all(std::span<const Range> runs, Range readers) {
  return readers.begin <= runs.front().begin && runs.back().end <= readers.end;
}

/// Index into Plan::masks of a pack's queries at some positions.
std::int32_t emit_mask(std::span<const Range> runs, Range readers, Plan& plan) {
  QueryMask mask;
  std::int32_t before = 0;  // queries of earlier runs
  for (const Range run : runs) {
    const std::int32_t end = std::min(run.end, readers.end);
    for (std::int32_t p = std::max(run.begin, readers.begin); p < end; ++p) mask.set(before + p - run.begin);
    before += run.size();
  }
  plan.masks.push_back(mask);
  return static_cast<std::int32_t>(plan.masks.size()) - 1;
}

bool read_by_both_halves(std::span<const Range> runs, const Pack& pack, Range readers) {
  if (pack.first_half == 0) return false;
  const HalfReaders halves = half_readers(runs, pack.first_half, readers);
  return halves.first && halves.second;
}

/// Adds the span of a segment's tokens from `begin` to `end`, or to the live end.
void emit_span(const Forest& forest, const Packs& packs, const Pack& pack, const PackSegment& segment,
               std::int32_t begin, std::int32_t end, bool open, Plan& plan) {
  const std::span<const Range> runs = packs.runs(pack);
  const ForestRequest& request = forest.requests[static_cast<std::size_t>(segment.row)];
  const std::int32_t mask = read_by_all(runs, segment.readers) ? -1 : emit_mask(runs, segment.readers, plan);
  std::uint32_t flags = open ? kSpanEndFromEnd : kSpanAbsolute;
  if (read_by_both_halves(runs, pack, segment.readers)) flags |= kSpanBothHalves;
  plan.spans.push_back({request.slot, request.generation, begin, open ? 0 : end, mask, flags});
}

/// The spans of a pack that is not cut.
void emit_whole(const Forest& forest, const Packs& packs, const Pack& pack, Plan& plan) {
  for (const PackSegment& segment : packs.segments(pack)) {
    if (!segment.open_ended && segment.tokens() == 0) continue;
    emit_span(forest, packs, pack, segment, segment.begin, segment.end, segment.open_ended, plan);
  }
}

/// The spans of a pack's tokens [first, last). An open end belongs to the part that holds the segment's last token, so
/// an empty tail behind all tokens to the last part.
void emit_part(const Forest& forest, const Packs& packs, const Pack& pack, std::int64_t first, std::int64_t last,
               Plan& plan) {
  std::int64_t begin = 0;  // of the segment, among the pack's tokens
  for (const PackSegment& segment : packs.segments(pack)) {
    const std::int64_t end = begin + segment.tokens();
    const bool open = segment.open_ended && first < std::max<std::int64_t>(end, 1) && end <= last;
    const std::int64_t from = std::max(begin, first);
    const std::int64_t to = std::min(end, last);
    if (open || from < to) {
      emit_span(forest, packs, pack, segment, segment.begin + static_cast<std::int32_t>(from - begin),
                segment.begin + static_cast<std::int32_t>(to - begin), open, plan);
    }
    begin = end;
  }
}

}  // namespace

void check_list_lengths(const ListLengths& lengths) {
  if (lengths.longest() <= kMaxListLength) return;
  fail(ErrorCode::kUnsupported, "the plan would have ", lengths.items, " items with ", lengths.entries,
       " queries and up to ", lengths.spans, " spans; supported are up to ", kMaxListLength, " of each");
}

void PlanEmitter::emit(const Forest& forest, const Packs& packs, const Division& division, const TileTable& tiles,
                       Plan& plan) {
  emit_queries(forest, packs.order().size(), plan);
  make_room(packs, division, plan);
  emit_merge_lists(packs.order(), plan);
  std::int32_t entries = 0;
  WorkItem* item = plan.items.data();
  for (std::size_t i = 0; i < packs.packs().size(); ++i) {
    const Pack& pack = packs.packs()[i];
    const std::int32_t parts = division.parts(i);
    for (std::int32_t part = 0; part < parts; ++part, ++item) {
      emit_item_queries(packs, pack, entries, plan);
      item->queries = {entries, entries + pack.queries};
      entries = item->queries.end;
      item->first_half = pack.first_half;
      item->spans.begin = static_cast<std::int32_t>(plan.spans.size());
      if (parts == 1) {
        emit_whole(forest, packs, pack, plan);
        item->tile = tiles.tile(pack.queries, pack.tokens, pack.tile_rows);
      } else {
        const std::int64_t first = division.part_begin(pack, parts, part);
        const std::int64_t last = division.part_begin(pack, parts, part + 1);
        emit_part(forest, packs, pack, first, last, plan);
        item->tile = tiles.tile(pack.queries, last - first, pack.tile_rows);
      }
      item->spans.end = static_cast<std::int32_t>(plan.spans.size());
    }
  }
}

// Lists whose lengths are known are sized at once, since growing them element by element costs more than filling them.
// The items of each query are counted in time linear in runs and positions, by where runs begin and end.
void PlanEmitter::make_room(const Packs& packs, const Division& division, Plan& plan) {
  const ListLengths& lengths = division.lengths();
  check_list_lengths(lengths);
  items_at_.assign(static_cast<std::size_t>(packs.order().size()) + 1, 0);
  std::int32_t* const counts = items_at_.data();
  for (std::size_t i = 0; i < packs.packs().size(); ++i) {
    const std::int32_t parts = division.parts(i);
    for (const Range run : packs.runs(packs.packs()[i])) {
      counts[run.begin] += parts;
      counts[run.end] -= parts;
    }
  }
  std::partial_sum(items_at_.begin(), items_at_.end(), items_at_.begin());
  plan.items.resize(static_cast<std::size_t>(lengths.items));
  plan.item_queries.resize(static_cast<std::size_t>(lengths.entries));
  plan.item_outputs.resize(static_cast<std::size_t>(lengths.entries));
  plan.spans.clear();
  plan.masks.clear();
}

// Slots are numbered query by query, so that a merge reads one run of partials.
void PlanEmitter::emit_merge_lists(const QueryOrder& order, Plan& plan) {
  plan.merge_queries.clear();
  plan.merge_begin.clear();
  std::int32_t slots = 0;
  next_slot_.assign(plan.queries.size(), kDirect);
  if (plan.item_queries.size() > plan.queries.size()) {  // some query is in several items
    const std::span<const std::int32_t> queries = order.queries_at({0, order.size()});
    for (std::size_t position = 0; position < queries.size(); ++position) {
      next_slot_[static_cast<std::size_t>(queries[position])] = items_at_[position];
    }
    for (std::size_t query = 0; query < next_slot_.size(); ++query) {
      const std::int32_t items = next_slot_[query];
      next_slot_[query] = items == 1 ? kDirect : slots;
      if (items == 1) continue;
      plan.merge_queries.push_back(static_cast<std::int32_t>(query));
      plan.merge_begin.push_back(slots);
      slots += items;
    }
  }
  plan.merge_begin.push_back(slots);
  plan.merge_slots.resize(static_cast<std::size_t>(slots));
  std::iota(plan.merge_slots.begin(), plan.merge_slots.end(), 0);
  plan.partials = slots;
}

// Items come in the order of a query's tokens, and so do its slots.
void PlanEmitter::emit_item_queries(const Packs& packs, const Pack& pack, std::int32_t begin, Plan& plan) {
  std::int32_t* query_out = plan.item_queries.data() + begin;
  std::int32_t* output = plan.item_outputs.data() + begin;
  std::int32_t* const next_slot = next_slot_.data();
  for (const Range run : packs.runs(pack)) {
    for (const std::int32_t query : packs.order().queries_at(run)) {
      const std::int32_t slot = next_slot[query];
      *query_out++ = query;
      *output++ = slot;
      next_slot[query] = slot + 1;  // never read after kDirect, which is for queries of one item
    }
  }
}

}  // namespace trunkline
