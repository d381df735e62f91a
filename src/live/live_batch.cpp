// The events of a LiveBatch. Each checks what it is given, takes the memory that it may need, and only then edits, in
// steps that cannot fail: so a refused event changes nothing.
#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.hpp"
#include "live/live_batch_state.hpp"
#include "live/live_checks.hpp"
#include "trunkline/live.hpp"

namespace trunkline {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

LiveBatchOptions checked(const LiveBatchOptions& options) {
  check_options(options);
  return options;
}

void append(PageMirror& mirror, std::int32_t slot, const PageIds& ids, std::int32_t begin, std::int32_t end) {
  if (begin == end) return;
  std::visit([&](auto span) { mirror.append(slot, span.subspan(at(begin), at(end - begin))); }, ids);
}

/// \return whether a row shares other tokens than before
template <class Id>
bool lengthen_rows(LiveBatchState& state, std::span<const std::int32_t> kv_lens, std::span<const std::int32_t> indptr,
                   std::span<const Id> ids) {
  bool shares_others = false;
  for (std::size_t row = 0; row < kv_lens.size(); ++row) {
    if (kv_lens[row] == state.kv_lens[row]) continue;
    const std::int32_t slot = state.slots[row];
    if (!ids.empty()) state.pages.append(slot, ids.subspan(at(indptr[row]), at(indptr[row + 1] - indptr[row])));
    if (state.drafts[at(slot)] == 0 && state.tree.has_own_node(slot)) {  // as in most steps all rows
      state.kv_lens[row] = state.lengths[at(slot)] = kv_lens[row];
    } else if (state.lengthen(slot, kv_lens[row])) {
      shares_others = true;
    }
  }
  state.lengths_stale = true;
  return shares_others;
}

}  // namespace

LiveBatch::LiveBatch(const LiveBatchOptions& options) : state_(std::make_unique<LiveBatchState>(checked(options))) {}
LiveBatch::~LiveBatch() = default;
LiveBatch::LiveBatch(LiveBatch&&) noexcept = default;
LiveBatch& LiveBatch::operator=(LiveBatch&&) noexcept = default;

void LiveBatch::advance(std::span<const std::int32_t> kv_lens, const NewPages& pages) {
  LiveBatchState& state = *state_;
  const std::int64_t max_pages = check_advance(state, kv_lens, pages);
  if (max_pages > state.pages.width()) state.make_room(state.rows(), max_pages);
  const bool shares_others =
      std::visit([&](auto ids) { return lengthen_rows(state, kv_lens, pages.indptr, ids); }, pages.ids);
  if (shares_others) ++state.sharing;
}

RequestId LiveBatch::join(const NewRequest& request) {
  LiveBatchState& state = *state_;
  check_request_pages(request, state.options);
  const QueryTokens tokens = checked_queries(request.queries, request.query_parents, request.kv_len);
  const auto count = static_cast<std::int32_t>(size_of(request.pages));
  state.make_room(state.rows() + 1, count);
  state.make_query_room(state.next_slot(), tokens);
  append(state.pages, state.next_slot(), request.pages, 0, count);
  const RequestId joined = state.add_row(request.kv_len, tokens);
  state.list_queries();
  return joined;
}

void LiveBatch::leave(RequestId request) {
  LiveBatchState& state = *state_;
  state.remove_row(state.row_of[at(state.slot_of(request))]);
  state.list_queries();
}

RequestId LiveBatch::fork(RequestId parent) {
  LiveBatchState& state = *state_;
  const std::int32_t slot = state.slot_of(parent);
  state.make_room(state.rows() + 1, state.pages.count(slot));
  const QueryTokens tokens = {state.queries[at(slot)], state.parents[at(slot)]};
  state.make_query_room(state.next_slot(), tokens);
  state.pages.append(state.next_slot(), state.pages.pages(slot));
  const RequestId child = state.add_row(state.lengths[at(slot)], tokens);
  state.list_queries();
  return child;
}

void LiveBatch::replace_page(RequestId request, std::int32_t index, std::int64_t page) {
  LiveBatchState& state = *state_;
  const std::int32_t slot = state.slot_of(request);
  if (index < 0 || index >= state.pages.count(slot)) {
    fail(ErrorCode::kOutOfRange, "index is ", index, "; the request in slot ", slot, " has ", state.pages.count(slot),
         " pages");
  }
  check_page(page, state.options.num_pages);
  const auto id = static_cast<std::int32_t>(page);
  if (state.pages.pages(slot)[at(index)] == id) return;
  const auto replace = [&] { state.pages.replace(slot, index, id); };
  const std::int32_t shared = state.tree.shared_tokens(slot);
  // The first page of a request's own node distinguishes it from its siblings.
  if (index > shared / state.options.page_size) return replace();
  state.relocate(slot, replace);
  const std::int64_t begin = std::int64_t{index} * state.options.page_size;
  if (begin < shared || begin < state.tree.shared_tokens(slot)) state.mark_changed(slot);
}

void LiveBatch::truncate(RequestId request, std::int32_t kv_len) {
  LiveBatchState& state = *state_;
  const std::int32_t slot = state.slot_of(request);
  const std::int32_t before = state.lengths[at(slot)];
  const std::int32_t shared = state.tree.shared_tokens(slot);
  if (kv_len < 0 || kv_len > before) {
    fail(ErrorCode::kInvalidArgument, "kv_len is ", kv_len, "; the request in slot ", slot, " has ", before,
         " tokens, and truncate() makes it no longer");
  }
  if (kv_len < shared) {
    fail(ErrorCode::kInvalidArgument, "kv_len is ", kv_len, ", but the request in slot ", slot, " shares its first ",
         shared, " tokens with others, which are not truncated");
  }
  if (kv_len > 0 && kv_len < state.queries[at(slot)]) {
    fail(ErrorCode::kInvalidArgument, "kv_len is ", kv_len, ", but the request in slot ", slot, " brings ",
         state.queries[at(slot)], " query tokens; change them first, by set_queries()");
  }
  if (kv_len == before) return;
  const auto shorten = [&] {
    state.set_length(slot, kv_len);
    state.pages.shorten(slot, static_cast<std::int32_t>(pages_for(kv_len, state.options.page_size)));
  };
  if (state.tree.keeps_form(state.table(), slot, kv_len)) {
    shorten();
  } else if (state.relocate(slot, shorten)) {
    state.mark_changed(slot);
  }
  ++state.truncations;
}

void LiveBatch::set_queries(RequestId request, std::int32_t queries, std::span<const std::int32_t> query_parents) {
  LiveBatchState& state = *state_;
  const std::int32_t slot = state.slot_of(request);
  const QueryTokens tokens = checked_queries(queries, query_parents, state.lengths[at(slot)]);
  const std::vector<std::int32_t>& present = state.parents[at(slot)];
  if (tokens.count == state.queries[at(slot)] &&
      std::equal(present.begin(), present.end(), tokens.parents.begin(), tokens.parents.end())) {
    return;
  }
  state.make_query_room(slot, tokens);
  state.relocate(slot, [&] { state.set_query_tokens(slot, tokens); });
  state.list_queries();
  state.mark_changed(slot);
}

void LiveBatch::reorder(std::span<const std::int32_t> rows) {
  LiveBatchState& state = *state_;
  check_permutation(rows, state.rows(), state.scratch);
  state.scratch = state.slots;
  for (std::size_t row = 0; row < rows.size(); ++row) state.slots[row] = state.scratch[at(rows[row])];
  for (std::int32_t row = 0; row < state.rows(); ++row) {
    const std::int32_t slot = state.slots[at(row)];
    state.row_of[at(slot)] = row;
    state.kv_lens[at(row)] = state.lengths[at(slot)];
    state.generations[at(row)] = state.generation_of[at(slot)];
  }
  state.list_queries();
  state.form_stale = true;
}

std::int32_t LiveBatch::rows() const {
  return state_->rows();
}

RequestId LiveBatch::request(std::int32_t row) const {
  if (row < 0 || row >= rows()) {
    fail(ErrorCode::kOutOfRange, "row is ", row, "; the batch has ", rows(), " rows");
  }
  return {state_->slots[at(row)], state_->generations[at(row)]};
}

std::int32_t LiveBatch::row(RequestId request) const {
  return state_->row_of[at(state_->slot_of(request))];
}

std::int32_t LiveBatch::kv_len(RequestId request) const {
  return state_->lengths[at(state_->slot_of(request))];
}

std::span<const std::int32_t> LiveBatch::request_pages(RequestId request) const {
  return state_->pages.pages(state_->slot_of(request));
}

std::int32_t LiveBatch::shared_tokens(RequestId request) const {
  return state_->tree.shared_tokens(state_->slot_of(request));
}

Batch LiveBatch::batch() const {
  return state_->view();
}

const Forest& LiveBatch::forest() {
  return state_->present_forest();
}

std::uint64_t LiveBatch::sharing_revision() const {
  return state_->sharing;
}

const LiveBatchState& state_of(const LiveBatch& batch) {
  return *batch.state_;
}

}  // namespace trunkline
