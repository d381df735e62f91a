#include "plan/emit.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.hpp"

namespace trunkline {
namespace {

void emit_queries(const Forest& forest, std::int32_t count, Plan& plan) {
  plan.queries.resize(static_cast<std::size_t>(count));
  const std::int32_t* const parents = forest.query_parents.empty() ? nullptr : forest.query_parents.data();
  for (const ForestRequest& request : forest.requests) {
    for (std::int32_t token = 0; token < request.queries; ++token) {
      const std::int32_t id = request.query_begin + token;
      const std::int32_t parent = parents == nullptr ? token - 1 : parents[id];
      plan.queries[static_cast<std::size_t>(id)] = {request.slot, request.generation, token,
                                                    request.queries - 1 - token, parent};
    }
  }
}

bool read_by_all(std::span<const Range> runs, Range readers) {
  return readers.begin <= runs.front().begin && runs.back().end <= readers.end;
}

/// A word whose bits from `begin` to `end` are set, of which there are some.
std::uint64_t bits(std::int32_t begin, std::int32_t end) {
  return ~std::uint64_t{0} >> (64 - (end - begin)) << begin;
}

/// \param queries not empty
void set_queries(Range queries, QueryMask& mask) {
  if (queries.begin < 64) mask.words[0] |= bits(queries.begin, std::min(queries.end, 64));
  if (queries.end > 64) mask.words[1] |= bits(std::max(queries.begin, 64) - 64, queries.end - 64);
}

/// Index into Plan::masks of a pack's queries at some positions.
inline std::int32_t emit_mask(std::span<const Range> runs, Range readers, Plan& plan) {
  QueryMask mask;
  std::int32_t before = 0;  // queries of earlier runs
  for (const Range run : runs) {
    const Range common = {std::max(run.begin, readers.begin), std::min(run.end, readers.end)};
    if (common.size() > 0) set_queries({before + common.begin - run.begin, before + common.end - run.begin}, mask);
    before += run.size();
  }
  plan.masks.push_back(mask);
  return static_cast<std::int32_t>(plan.masks.size()) - 1;
}

/// The span of a segment's tokens from `begin` to `end`, which is from the live end where the span is open-ended.
/// Inline, because most plans take most of their time here.
inline KvSpan make_span(const Forest& forest, const Packs& packs, const Pack& pack, const PackSegment& segment,
                        std::int32_t begin, std::int32_t end, bool open, Plan& plan) {
  const std::span<const Range> runs = packs.runs(pack);
  const ForestRequest& request = forest.requests[static_cast<std::size_t>(segment.row)];
  const std::int32_t mask = read_by_all(runs, segment.readers) ? -1 : emit_mask(runs, segment.readers, plan);
  std::uint32_t flags = open ? kSpanEndFromEnd : kSpanAbsolute;
  if (segment.both_halves) flags |= kSpanBothHalves;
  return {request.slot, request.generation, begin, end, mask, flags};
}

}  // namespace

void check_list_lengths(const ListLengths& lengths) {
  if (lengths.longest() <= kMaxListLength) return;
  fail(ErrorCode::kUnsupported, "the plan would have ", lengths.items, " items with ", lengths.entries,
       " queries and up to ", lengths.spans, " spans and ", lengths.masks, " masks; supported are up to ",
       kMaxListLength, " of each");
}

inline void PlanEmitter::add_span(const KvSpan& span, Plan& plan) {
  plan.spans[static_cast<std::size_t>(spans_++)] = span;
}

/// The spans of a pack that is not cut.
inline void PlanEmitter::emit_whole(const Forest& forest, const Packs& packs, const Pack& pack, Plan& plan) {
  for (const PackSegment& segment : packs.segments(pack)) {
    if (!segment.open_ended && segment.tokens() == 0) continue;
    const std::int32_t end = segment.open_ended ? 0 : segment.end;
    add_span(make_span(forest, packs, pack, segment, segment.begin, end, segment.open_ended, plan), plan);
  }
}

// A query's slots come in the order of its items.
inline void PlanEmitter::emit_item_queries(const Packs& packs, const Pack& pack, std::int32_t begin, Plan& plan) {
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

void PlanEmitter::emit(const Forest& forest, const Packs& packs, const KvSplitter& splitter, const TileTable& tiles,
                       Plan& plan) {
  emit_queries(forest, packs.order().size(), plan);
  make_room(packs, splitter, plan);
  emit_merge_lists(packs.order(), plan);
  const bool trees = packs.order().has_trees();
  if (trees) windows_.reset(splitter.lengths().spans);
  std::int32_t entries = 0;
  WorkItem* item = plan.items.data();
  const std::span<const Pack> all = packs.packs();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Pack& pack = all[i];
    const std::int32_t parts = splitter.parts(i);
    for (std::int32_t part = 0; part < parts; ++part, ++item) {
      emit_item_queries(packs, pack, entries, plan);
      item->queries = {entries, entries + pack.queries};
      entries = item->queries.end;
      item->first_half = pack.first_half;
      item->spans.begin = spans_;
      if (parts == 1 && !trees) {
        emit_whole(forest, packs, pack, plan);
        item->tile = tiles.tile_of_rows(pack.tile_rows, splitter.part_begin(pack, 1, 1));
      } else {
        const std::int64_t first = splitter.part_begin(pack, parts, part);
        const std::int64_t last = splitter.part_begin(pack, parts, part + 1);
        emit_part(forest, packs, pack, {first, last, part == 0, splitter.slices(pack)}, plan);
        item->tile = tiles.tile_of_rows(pack.tile_rows, last - first);
      }
      item->spans.end = spans_;
    }
  }
  plan.spans.resize(static_cast<std::size_t>(spans_));
}

// An open end belongs to the part that holds the end of the segment's last slice, so an empty tail behind all tokens to
// the last part.
void PlanEmitter::emit_part(const Forest& forest, const Packs& packs, const Pack& pack, const Part& part, Plan& plan) {
  std::int64_t begin = 0;  // of the segment, among the pack's tokens as cuts count them
  for (const PackSegment& segment : packs.segments(pack)) {
    const std::int64_t end = begin + part.slices.room(segment.begin, segment.end);
    const std::int64_t from = std::max(begin, part.first);
    const std::int64_t to = std::min(end, part.last);
    const bool holds_end = end <= part.last && (part.first < end || (part.leads && end == 0));
    const bool open = segment.open_ended && holds_end;
    if (open || from < to) {
      const std::int32_t chunk_end = to == end ? segment.end : part.slices.place(segment.begin, to - begin);
      const Chunk chunk = {part.slices.place(segment.begin, from - begin), chunk_end, from == begin};
      if (packs.order().drafts(segment.row) > 0) {
        emit_drafts(forest, packs, pack, segment, chunk, plan);
      } else {
        add_span(make_span(forest, packs, pack, segment, chunk.begin, open ? 0 : chunk.end, open, plan), plan);
      }
    }
    begin = end;
  }
}

// The past of a row with a draft tree ends where the drafts begin. The drafts belong to the open-ended segment wherever
// a policy has cut: read by position, a draft would stay in a plan as the past of a later step, visible to all queries.
void PlanEmitter::emit_drafts(const Forest& forest, const Packs& packs, const Pack& pack, const PackSegment& segment,
                              const Chunk& chunk, Plan& plan) {
  const ForestRequest& request = forest.requests[static_cast<std::size_t>(segment.row)];
  const std::int32_t past = request.kv_len - request.queries;  // negative in an empty request, whose spans are empty
  const std::int32_t segment_begin = segment.open_ended ? std::min(segment.begin, past) : segment.begin;
  const std::int32_t begin = chunk.holds_begin ? std::min(chunk.begin, segment_begin) : chunk.begin;
  // The chunk that reads the last token before the drafts stretches with the past.
  const std::int32_t last_of_past = std::max(past - 1, segment_begin);
  if (segment.open_ended && begin <= last_of_past && last_of_past < chunk.end) {
    add_span(make_span(forest, packs, pack, segment, std::max(begin, 0), -request.queries, true, plan), plan);
  } else if (begin < std::min(chunk.end, past)) {
    add_span(make_span(forest, packs, pack, segment, begin, std::min(chunk.end, past), false, plan), plan);
  }
  if (!segment.open_ended || chunk.end <= past) return;
  const Range drafts = {std::max(begin, past) - past, chunk.end - past};
  const std::optional<KvSpan> window = windows_.window(forest, packs, pack, segment, drafts, plan);
  if (window) add_span(*window, plan);
}

// Lists whose lengths are known are sized at once, since growing them element by element costs more than filling them.
// The items of each query are counted in time linear in runs and positions, by where runs begin and end.
void PlanEmitter::make_room(const Packs& packs, const KvSplitter& splitter, Plan& plan) {
  const ListLengths& lengths = splitter.lengths();
  check_list_lengths(lengths);
  items_at_.assign(static_cast<std::size_t>(packs.order().size()) + 1, 0);
  std::int32_t* const counts = items_at_.data();
  const std::span<const Pack> all = packs.packs();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int32_t parts = splitter.parts(i);
    for (const Range run : packs.runs(all[i])) {
      counts[run.begin] += parts;
      counts[run.end] -= parts;
    }
  }
  std::partial_sum(items_at_.begin(), items_at_.end(), items_at_.begin());
  plan.items.resize(static_cast<std::size_t>(lengths.items));
  plan.item_queries.resize(static_cast<std::size_t>(lengths.entries));
  plan.item_outputs.resize(static_cast<std::size_t>(lengths.entries));
  plan.spans.resize(static_cast<std::size_t>(lengths.spans));  // cut to what there is when they are made
  spans_ = 0;
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

}  // namespace trunkline
