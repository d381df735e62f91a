#include "live/live_batch_state.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "forest/forest_requests.hpp"
#include "live/live_checks.hpp"

namespace trunkline {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

/// As reserve(), but doubling, so that one more element each time costs constant time each.
template <class T>
void reserve_amortised(std::vector<T>& list, std::size_t count) {
  if (list.capacity() < count) list.reserve(std::max(count, 2 * list.capacity()));
}

}  // namespace

LiveBatchState::LiveBatchState(const LiveBatchOptions& given) : options(given), pages(given.page_size) {
  make_room(given.expected_requests, std::max(given.expected_pages, 1));
}

SlotRows LiveBatchState::table() const {
  return {pages.ids().data(), lengths.data(), drafts.data(), pages.width(), options.page_size, options.null_page};
}

std::int32_t LiveBatchState::slot_of(RequestId request) const {
  const std::int32_t slot = request.slot;
  if (slot < 0 || slot >= used_slots) {
    fail(ErrorCode::kOutOfRange, "request.slot is ", slot, "; requests have had slots 0 to ", used_slots - 1);
  }
  if (request.generation != generation_of[at(slot)]) {
    fail(ErrorCode::kStale, "request names generation ", request.generation, " of slot ", slot, ", which is at ",
         generation_of[at(slot)], "; the request has left");
  }
  if (row_of[at(slot)] < 0) {
    fail(ErrorCode::kStale, "request names generation ", request.generation, " of slot ", slot,
         ", which no request has yet");
  }
  return slot;
}

/// For so many rows in all, and so many pages in the longest. With make_query_room takes all memory that an event may
/// need, so that what follows cannot fail.
void LiveBatchState::make_room(std::int32_t row_count, std::int64_t page_count) {
  const auto rows_wanted = at(row_count);
  reserve_amortised(slots, rows_wanted);
  reserve_amortised(generations, rows_wanted);
  reserve_amortised(kv_lens, rows_wanted);
  reserve_amortised(query_start, rows_wanted + 1);
  reserve_amortised(scratch, rows_wanted);
  if (rows_wanted > row_of.size()) {
    const std::size_t room = std::max(rows_wanted, 2 * row_of.size());
    free_slots.reserve(room);
    tree.reserve(static_cast<std::int32_t>(room), table());
    generation_of.resize(room);
    row_of.resize(room, -1);
    lengths.resize(room);
    queries.resize(room);
    drafts.resize(room);
    parents.resize(room);
    changed_at.resize(room);
  }
  pages.reserve(static_cast<std::int32_t>(row_of.size()), page_count);
}

/// For a slot that brings other query tokens than now.
/// \throws Error when the batch would bring more than 2^31 - 1.
void LiveBatchState::make_query_room(std::int32_t slot, const QueryTokens& tokens) {
  const std::int64_t total = total_queries - queries[at(slot)] + tokens.count;
  if (total > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorCode::kInvalidArgument, "the batch would have ", total, " query tokens; at most ",
         std::numeric_limits<std::int32_t>::max());
  }
  parents[at(slot)].reserve(tokens.parents.size());
  const bool trees = rows_of_trees > 0 || !tokens.parents.empty();
  if (trees) reserve_amortised(query_parents, static_cast<std::size_t>(total));
}

RequestId LiveBatchState::add_row(std::int32_t kv_len, const QueryTokens& tokens) {
  const std::int32_t slot = next_slot();
  if (free_slots.empty()) {
    ++used_slots;
  } else {
    free_slots.pop_back();
  }
  row_of[at(slot)] = rows();
  lengths[at(slot)] = kv_len;
  slots.push_back(slot);
  generations.push_back(generation_of[at(slot)]);
  kv_lens.push_back(kv_len);
  set_query_tokens(slot, tokens);
  tree.insert(table(), slot);
  form_stale = true;
  ++sharing;
  return {slot, generation_of[at(slot)]};
}

void LiveBatchState::remove_row(std::int32_t row) {
  const std::int32_t slot = slots[at(row)];
  tree.remove(table(), slot);
  pages.shorten(slot, 0);
  set_query_tokens(slot, {0, {}});
  lengths[at(slot)] = 0;
  row_of[at(slot)] = -1;
  ++generation_of[at(slot)];
  free_slots.push_back(slot);
  slots.erase(slots.begin() + row);
  generations.erase(generations.begin() + row);
  kv_lens.erase(kv_lens.begin() + row);
  for (std::int32_t i = row; i < rows(); ++i) row_of[at(slots[at(i)])] = i;
  form_stale = true;
  ++sharing;
}

void LiveBatchState::set_length(std::int32_t slot, std::int32_t kv_len) {
  lengths[at(slot)] = kv_len;
  kv_lens[at(row_of[at(slot)])] = kv_len;
  lengths_stale = true;
}

/// A slot without request has zero query tokens.
void LiveBatchState::set_query_tokens(std::int32_t slot, const QueryTokens& tokens) {
  const auto several = [](std::int32_t count) { return count > 1 ? 1 : 0; };
  total_queries += tokens.count - queries[at(slot)];
  rows_of_several += several(tokens.count) - several(queries[at(slot)]);
  rows_of_trees += (tokens.drafts() > 0 ? 1 : 0) - (drafts[at(slot)] > 0 ? 1 : 0);
  queries[at(slot)] = tokens.count;
  drafts[at(slot)] = tokens.drafts();
  parents[at(slot)].assign(tokens.parents.begin(), tokens.parents.end());
}

/// Lays out what rows bring, after a change of rows or of what they bring.
void LiveBatchState::list_queries() {
  query_start.clear();
  query_parents.clear();
  if (rows_of_several == 0) return;
  query_start.push_back(0);
  for (const std::int32_t slot : slots) {
    const std::int32_t count = queries[at(slot)];
    query_start.push_back(query_start.back() + count);
    if (rows_of_trees == 0) continue;
    const std::size_t begin = query_parents.size();
    query_parents.insert(query_parents.end(), parents[at(slot)].begin(), parents[at(slot)].end());
    if (!parents[at(slot)].empty()) continue;
    query_parents.resize(begin + at(count));
    std::iota(query_parents.begin() + static_cast<std::ptrdiff_t>(begin), query_parents.end(), -1);
  }
}

/// \return whether growth has made the slot share more tokens, which spoils no plan
bool LiveBatchState::lengthen(std::int32_t slot, std::int32_t kv_len) {
  if (tree.keeps_form(table(), slot, kv_len)) {
    set_length(slot, kv_len);
    return false;
  }
  if (drafts[at(slot)] > 0) {
    // Drafts may have come to lie on what was shared, or no longer do.
    if (relocate(slot, [&] { set_length(slot, kv_len); })) mark_changed(slot);
    return false;
  }
  const std::int32_t before = tree.shared_tokens(slot);
  set_length(slot, kv_len);
  tree.grow(table(), slot);
  form_stale = true;
  return tree.shared_tokens(slot) != before;
}

Batch LiveBatchState::view() const {
  Batch batch;
  batch.pages = PageTable::pooled(pages.ids(), pages.width(), slots, options.page_size);
  batch.kv_lens = kv_lens;
  batch.query_start = query_start;
  batch.query_parents = query_parents;
  batch.slots = slots;
  batch.generations = generations;
  batch.num_pages = options.num_pages;
  batch.null_page = options.null_page;
  return batch;
}

const Forest& LiveBatchState::present_forest() {
  if (form_stale) {
    fill_requests(view(), forest);
    tree.emit(table(), slots, forest);
  } else if (lengths_stale) {
    stretch_forest();
  }
  form_stale = false;
  lengths_stale = false;
  return forest;
}

/// Where the form has stayed, only requests in nodes of their own have other lengths.
void LiveBatchState::stretch_forest() {
  for (std::size_t row = 0; row < kv_lens.size(); ++row) {
    ForestRequest& request = forest.requests[row];
    const std::int32_t growth = kv_lens[row] - request.kv_len;
    if (growth == 0) continue;
    request.kv_len = kv_lens[row];
    forest.nodes[at(request.node)].end = request.kv_len;
    forest.total_tokens += growth;
    forest.distinct_tokens += growth;
  }
}

}  // namespace trunkline
