#include "plan/emit.hpp"

#include <algorithm>
#include <numeric>

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

/// The spans of a pack's tokens [first, last). An open end belongs to the part that holds the segment's last token, so
/// an empty tail behind all tokens to the last part.
void emit_spans(const Forest& forest, const Packs& packs, const Pack& pack, std::int64_t first, std::int64_t last,
                Plan& plan) {
  std::int64_t begin = 0;  // of the segment, among the pack's tokens
  const std::span<const Range> runs = packs.runs(pack);
  for (const PackSegment& segment : packs.segments(pack)) {
    const std::int64_t end = begin + segment.tokens();
    const bool open = segment.open_ended && first < std::max<std::int64_t>(end, 1) && end <= last;
    const std::int64_t from = std::max(begin, first);
    const std::int64_t to = std::min(end, last);
    if (open || from < to) {
      const ForestRequest& request = forest.requests[static_cast<std::size_t>(segment.row)];
      KvSpan& span = plan.spans.emplace_back();
      span.slot = request.slot;
      span.generation = request.generation;
      span.begin = segment.begin + static_cast<std::int32_t>(from - begin);
      span.end = open ? 0 : segment.begin + static_cast<std::int32_t>(to - begin);
      span.flags = open ? kSpanEndFromEnd : kSpanAbsolute;
      span.mask = read_by_all(runs, segment.readers) ? -1 : emit_mask(runs, segment.readers, plan);
    }
    begin = end;
  }
}

/// Room for all items, filled in by index: growing each list by one element at a time took a seventh of the plan.
void make_room(const Packs& packs, const Division& division, Plan& plan) {
  std::size_t items = 0;
  std::size_t entries = 0;
  for (std::size_t i = 0; i < packs.packs().size(); ++i) {
    const auto parts = static_cast<std::size_t>(division.parts(i));
    items += parts;
    entries += parts * static_cast<std::size_t>(packs.packs()[i].queries);
  }
  plan.items.resize(items);
  plan.item_queries.resize(entries);
  plan.item_outputs.resize(entries);
  plan.spans.clear();
  plan.masks.clear();
}

/// Writes a pack's query ids. \return one past the last.
std::int32_t* emit_item_queries(const Packs& packs, const Pack& pack, std::int32_t* next) {
  for (const Range run : packs.runs(pack)) {
    for (const std::int32_t query : packs.order().queries_at(run)) *next++ = query;
  }
  return next;
}

}  // namespace

void PlanEmitter::emit(const Forest& forest, const Packs& packs, const Division& division, const TileTable& tiles,
                       Plan& plan) {
  emit_queries(forest, packs.order().size(), plan);
  make_room(packs, division, plan);
  WorkItem* item = plan.items.data();
  std::int32_t* const first_query = plan.item_queries.data();
  std::int32_t* next_query = first_query;
  for (std::size_t i = 0; i < packs.packs().size(); ++i) {
    const Pack& pack = packs.packs()[i];
    const std::int32_t parts = division.parts(i);
    for (std::int32_t part = 0; part < parts; ++part, ++item) {
      const std::int64_t first = division.part_begin(pack, parts, part);
      const std::int64_t last = division.part_begin(pack, parts, part + 1);
      item->queries.begin = static_cast<std::int32_t>(next_query - first_query);
      next_query = emit_item_queries(packs, pack, next_query);
      item->queries.end = static_cast<std::int32_t>(next_query - first_query);
      item->spans.begin = static_cast<std::int32_t>(plan.spans.size());
      emit_spans(forest, packs, pack, first, last, plan);
      item->spans.end = static_cast<std::int32_t>(plan.spans.size());
      item->tile = tiles.tile(pack.queries, last - first);
    }
  }
  emit_merge_lists(plan);
}

// Slots are numbered query by query, so that a merge reads one run of partials. Items come in the order of a query's
// tokens.
void PlanEmitter::emit_merge_lists(Plan& plan) {
  next_slot_.assign(plan.queries.size(), 0);
  for (const std::int32_t query : plan.item_queries) ++next_slot_[static_cast<std::size_t>(query)];
  plan.merge_queries.clear();
  plan.merge_begin.clear();
  std::int32_t slots = 0;
  for (std::size_t query = 0; query < next_slot_.size(); ++query) {
    const std::int32_t items = next_slot_[query];
    next_slot_[query] = kDirect;
    if (items == 1) continue;
    next_slot_[query] = slots;
    plan.merge_queries.push_back(static_cast<std::int32_t>(query));
    plan.merge_begin.push_back(slots);
    slots += items;
  }
  plan.merge_begin.push_back(slots);
  plan.merge_slots.resize(static_cast<std::size_t>(slots));
  std::iota(plan.merge_slots.begin(), plan.merge_slots.end(), 0);
  plan.partials = slots;

  for (std::size_t i = 0; i < plan.item_queries.size(); ++i) {
    std::int32_t& slot = next_slot_[static_cast<std::size_t>(plan.item_queries[i])];
    plan.item_outputs[i] = slot;
    slot += slot == kDirect ? 0 : 1;
  }
}

}  // namespace trunkline
