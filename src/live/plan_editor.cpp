#include "live/plan_editor.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

#include "plan/cut_choice.hpp"
#include "plan/plan_checks.hpp"

namespace trunkline {
namespace {

constexpr std::int32_t kGone = -1;
// Below this, an item of a new request is not cut: the longest of the old plan may be short.
constexpr std::int64_t kMinPart = 1024;
constexpr std::int64_t kMaxLength = std::numeric_limits<std::int32_t>::max();

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

bool moves(const KvSpan& span) {
  return (span.flags & (kSpanBeginFromEnd | kSpanEndFromEnd)) != 0;
}

std::int32_t masks_of(const KvSpan& span) {
  if (span.mask < 0) return 0;
  return (span.flags & kSpanTokenMask) != 0 ? span.end - span.begin : 1;
}

std::int32_t next(const std::vector<WorkItem>& list) {
  return static_cast<std::int32_t>(list.size());
}

}  // namespace

bool PlanEditor::edit(const Plan& plan, const PlanOrigin& origin, const LiveBatchState& batch, Plan& result) {
  if (plan.invariant_chunk > 0) return false;
  tiles_.reset(*profile_, plan.shape.group_size(), options_->tile);
  find_survivors(plan, origin, batch);
  result.shape = plan.shape;
  result.policy = plan.policy;
  result.epoch = plan.epoch;
  result.capacity = plan.capacity;
  result.statistics = plan.statistics;
  copy_queries(plan, result);
  copy_merges(plan, result);
  copy_items(plan, result);
  copy_schedule(plan, result);
  if (!add_requests(batch, result) || !has_tokens_of(batch, result) || exceeds_capacity(result)) return false;
  result.statistics.partials = result.partials;
  result.statistics.partial_bytes =
      std::int64_t{2} * 4 * result.partials * plan.shape.q_heads * (plan.shape.head_dim_v + 1);
  return true;
}

/// Requests of the plan that stay, and the new numbers of their queries.
void PlanEditor::find_survivors(const Plan& plan, const PlanOrigin& origin, const LiveBatchState& batch) {
  generations_ = batch.generation_of.data();
  live_.assign(batch.row_of.size(), 0);
  new_query_.resize(plan.queries.size());
  std::int32_t kept = 0;
  changes_ = 0;
  for (std::size_t id = 0; id < plan.queries.size(); ++id) {
    const Query& query = plan.queries[id];
    const std::size_t slot = at(query.slot);
    const bool live = batch.row_of[slot] >= 0 && batch.generation_of[slot] == query.generation &&
                      batch.changed_at[slot] <= origin.changes;
    if (live) live_[slot] = 1;
    new_query_[id] = live ? kept++ : kGone;
    changes_ += !live && query.token == 0 ? 1 : 0;
  }
}

void PlanEditor::copy_queries(const Plan& plan, Plan& result) {
  result.queries.clear();
  for (std::size_t id = 0; id < plan.queries.size(); ++id) {
    if (new_query_[id] != kGone) result.queries.push_back(plan.queries[id]);
  }
}

/// Numbers what is left of the partials, query by query.
void PlanEditor::copy_merges(const Plan& plan, Plan& result) {
  result.merge_queries.resize(plan.merge_queries.size());
  result.merge_begin.resize(plan.merge_queries.size() + 1);
  result.merge_begin[0] = 0;
  new_partial_.resize(at(plan.partials));
  std::int32_t partials = 0;
  std::size_t merges = 0;
  for (std::size_t i = 0; i < plan.merge_queries.size(); ++i) {
    const std::int32_t query = new_query_[at(plan.merge_queries[i])];
    if (query == kGone) continue;
    for (std::int32_t j = plan.merge_begin[i]; j < plan.merge_begin[i + 1]; ++j) {
      new_partial_[at(plan.merge_slots[at(j)])] = partials++;
    }
    result.merge_queries[merges++] = query;
    result.merge_begin[merges] = partials;
  }
  result.merge_queries.resize(merges);
  result.merge_begin.resize(merges + 1);
  result.merge_slots.resize(at(partials));
  std::iota(result.merge_slots.begin(), result.merge_slots.end(), 0);
  result.partials = partials;
}

/// Lists get their old lengths first, and are cut to what is left of them.
void PlanEditor::copy_items(const Plan& plan, Plan& result) {
  result.items.clear();
  result.item_queries.resize(plan.item_queries.size());
  result.item_outputs.resize(plan.item_queries.size());
  result.spans.clear();
  result.masks = plan.masks;
  new_item_.resize(plan.items.size());
  longest_ = 0;
  std::int32_t entries = 0;
  for (std::size_t index = 0; index < plan.items.size(); ++index) {
    const WorkItem& item = plan.items[index];
    const Range queries = copy_item_queries(plan, item, entries, result);
    new_item_[index] = queries.size() == 0 ? kGone : next(result.items);
    if (queries.size() == 0) continue;
    copy_item(plan, item, queries, result);
    entries = queries.end;
  }
  result.item_queries.resize(at(entries));
  result.item_outputs.resize(at(entries));
}

/// \return where they are, from `begin` on
Range PlanEditor::copy_item_queries(const Plan& plan, const WorkItem& item, std::int32_t begin, Plan& result) const {
  std::int32_t* const queries = result.item_queries.data();
  std::int32_t* const outputs = result.item_outputs.data();
  std::int32_t end = begin;
  for (std::int32_t i = item.queries.begin; i < item.queries.end; ++i) {
    const std::int32_t query = new_query_[at(plan.item_queries[at(i)])];
    if (query == kGone) continue;
    const std::int32_t partial = plan.item_outputs[at(i)];
    queries[end] = query;
    outputs[end] = partial == kDirect ? kDirect : new_partial_[at(partial)];
    ++end;
  }
  return {begin, end};
}

/// Adds what is left of an item. \param queries some, in their new place
void PlanEditor::copy_item(const Plan& plan, const WorkItem& item, Range queries, Plan& result) {
  const bool all_live = queries.size() == item.queries.size();
  WorkItem& copy = result.items.emplace_back(item);
  copy.queries = queries;
  copy.spans.begin = static_cast<std::int32_t>(result.spans.size());
  if (!all_live && item.first_half > 0) {
    const std::int32_t first = live_queries(plan, item, item.first_half);
    // Without a first half a tile would work as one, which those with halves do not: what is left becomes the first.
    copy.first_half = first > 0 ? first : queries.size();
  }
  std::int64_t tokens = 0;
  for (std::int32_t s = item.spans.begin; s < item.spans.end; ++s) {
    const KvSpan& span = plan.spans[at(s)];
    copy_span(plan, item, span, all_live, result);
    tokens += span.open_ended() ? 0 : span.end - span.begin;
  }
  copy.spans.end = static_cast<std::int32_t>(result.spans.size());
  longest_ = std::max(longest_, tokens);
}

/// Counts the queries that stay among the first ones of an item.
std::int32_t PlanEditor::live_queries(const Plan& plan, const WorkItem& item, std::int32_t first) const {
  std::int32_t count = 0;
  for (std::int32_t i = item.queries.begin; i < item.queries.begin + first; ++i) {
    count += new_query_[at(plan.item_queries[at(i)])] != kGone ? 1 : 0;
  }
  return count;
}

/// Adds what is left of a span to the item that is copied last.
void PlanEditor::copy_span(const Plan& plan, const WorkItem& item, KvSpan span, bool all_live, Plan& result) {
  if (!is_live(span.slot, span.generation)) {
    // A span that moves with its request is private and ends with it. All readers share any other span, so the table of
    // any of them serves.
    const std::int32_t reader = moves(span) ? kGone : live_reader(plan, item, span);
    if (reader == kGone) return;
    const Query& query = plan.queries[at(reader)];
    span.slot = query.slot;
    span.generation = query.generation;
  }
  if (!all_live) {
    if (live_reader(plan, item, span) == kGone) return;
    compress_masks(plan, item, span, result);
  }
  result.spans.push_back(span);
}

/// A query of the old plan that attends to a span and stays.
std::int32_t PlanEditor::live_reader(const Plan& plan, const WorkItem& item, const KvSpan& span) const {
  for (std::int32_t i = item.queries.begin; i < item.queries.end; ++i) {
    const std::int32_t query = plan.item_queries[at(i)];
    if (new_query_[at(query)] == kGone) continue;
    if (span.mask < 0) return query;
    for (std::int32_t m = 0; m < masks_of(span); ++m) {
      if (plan.masks[at(span.mask + m)].test(i - item.queries.begin)) return query;
    }
  }
  return kGone;
}

/// Gives a span masks over the queries that stay, and marks whether both halves attend to it.
void PlanEditor::compress_masks(const Plan& plan, const WorkItem& item, KvSpan& span, Plan& result) {
  const WorkItem& copy = result.items.back();
  const std::int32_t count = masks_of(span);
  const auto first = static_cast<std::int32_t>(result.masks.size());
  bool halves[2] = {count == 0 && copy.first_half > 0, count == 0 && copy.first_half < copy.queries.size()};
  for (std::int32_t m = 0; m < count; ++m) {
    const QueryMask mask = plan.masks[at(span.mask + m)];
    QueryMask compressed;
    std::int32_t bit = 0;
    for (std::int32_t i = item.queries.begin; i < item.queries.end; ++i) {
      if (new_query_[at(plan.item_queries[at(i)])] == kGone) continue;
      if (mask.test(i - item.queries.begin)) {
        compressed.set(bit);
        halves[bit < copy.first_half ? 0 : 1] = true;
      }
      ++bit;
    }
    result.masks.push_back(compressed);
  }
  if (count > 0) span.mask = first;
  span.flags &= ~std::uint32_t{kSpanBothHalves};
  if (copy.first_half > 0 && halves[0] && halves[1]) span.flags |= kSpanBothHalves;
}

void PlanEditor::copy_schedule(const Plan& plan, Plan& result) {
  result.schedule.clear();
  for (const std::int32_t item : plan.schedule) {
    if (new_item_[at(item)] != kGone) result.schedule.push_back(new_item_[at(item)]);
  }
}

/// \return false when one has a draft tree, whose windows are PlanEmitter's to lay out
bool PlanEditor::add_requests(const LiveBatchState& batch, Plan& result) {
  const std::int32_t first = next(result.items);
  for (const std::int32_t slot : batch.slots) {
    if (live_[at(slot)] != 0) continue;
    if (batch.drafts[at(slot)] > 0) return false;
    add_request(batch, slot, result);
    ++changes_;
  }
  // They may be the longest, and those come first.
  const std::int32_t added = next(result.items) - first;
  result.schedule.resize(result.items.size());
  std::move_backward(result.schedule.begin(), result.schedule.end() - added, result.schedule.end());
  for (std::int32_t i = 0; i < added; ++i) result.schedule[at(i)] = first + i;
  return true;
}

/// Items of one request, cut so that none is longer than the longest of the old plan.
void PlanEditor::add_request(const LiveBatchState& batch, std::int32_t slot, Plan& result) {
  const std::int64_t part_tokens = std::max(longest_, kMinPart);
  NewRequestParts request;
  request.slot = slot;
  request.generation = batch.generation_of[at(slot)];
  request.length = batch.lengths[at(slot)];
  request.queries = batch.queries[at(slot)];
  request.first_query = static_cast<std::int32_t>(result.queries.size());
  request.first_partial = result.partials;
  request.part_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(part_tokens, kMaxLength));
  request.parts = std::max(1, ceil_div(request.length, request.part_tokens));
  add_queries(request, result);
  for (std::int32_t token = 0; token < request.queries; token += tiles_.max_queries()) {
    const Range tokens = {token, std::min(request.queries, token + tiles_.max_queries())};
    for (std::int32_t part = 0; part < request.parts; ++part) add_item(request, tokens, part, result);
  }
}

void PlanEditor::add_queries(const NewRequestParts& request, Plan& result) {
  for (std::int32_t token = 0; token < request.queries; ++token) {
    result.queries.push_back({request.slot, request.generation, token, request.queries - 1 - token, token - 1});
    if (request.parts == 1) continue;
    result.merge_queries.push_back(request.first_query + token);
    for (std::int32_t part = 0; part < request.parts; ++part)
      result.merge_slots.push_back(request.partial(token, part));
    result.merge_begin.push_back(static_cast<std::int32_t>(result.merge_slots.size()));
  }
  result.partials += request.parts == 1 ? 0 : request.queries * request.parts;
}

/// The attention of some of a request's query tokens over a part of its tokens.
void PlanEditor::add_item(const NewRequestParts& request, Range tokens, std::int32_t part, Plan& result) const {
  const bool last = part == request.parts - 1;
  const std::int32_t begin = part * request.part_tokens;
  WorkItem& item = result.items.emplace_back();
  item.tile = tiles_.tile(tokens.size(), last ? request.length - begin : request.part_tokens, 0);
  item.first_half = tiles_.first_half(item.tile.m, tokens.size());
  item.queries.begin = static_cast<std::int32_t>(result.item_queries.size());
  for (std::int32_t token = tokens.begin; token < tokens.end; ++token) {
    result.item_queries.push_back(request.first_query + token);
    result.item_outputs.push_back(request.parts == 1 ? kDirect : request.partial(token, part));
  }
  item.queries.end = static_cast<std::int32_t>(result.item_queries.size());
  item.spans.begin = static_cast<std::int32_t>(result.spans.size());
  std::uint32_t flags = last ? kSpanEndFromEnd : kSpanAbsolute;
  if (item.first_half > 0 && item.first_half < tokens.size()) flags |= kSpanBothHalves;
  result.spans.push_back({request.slot, request.generation, begin, last ? 0 : begin + request.part_tokens, -1, flags});
  item.spans.end = static_cast<std::int32_t>(result.spans.size());
}

}  // namespace trunkline
