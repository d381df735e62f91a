// The events of live batches, and what they hold.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <variant>

#include "capi/convert.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

RequestId id_of(trunkline_request request) {
  return {request.slot, request.generation};
}

trunkline_request request_of(RequestId id) {
  return {.slot = id.slot, .generation = id.generation};
}

std::span<const std::int32_t> row_entries(const std::int32_t* array, std::int32_t rows, const char* name) {
  if (rows < 0) fail(ErrorCode::kInvalidArgument, "rows is ", rows, "; it must be >= 0");
  if (rows > 0) need(array, name);
  return {array, static_cast<std::size_t>(rows)};
}

std::span<const std::int32_t> parents_of(const std::int32_t* query_parents, std::int32_t queries) {
  if (query_parents == nullptr) return {};
  return {query_parents, static_cast<std::size_t>(std::max(queries, 0))};
}

void check_events_allowed(const LiveBatchObject& live) {
  if (!live.owned_by_tree) return;
  fail(ErrorCode::kUnsupported, "live is a sequence tree's batch; calls on the tree edit it and end it");
}

/// An event. The forest shown before it ends, whether it is refused or not.
template <class Event>
trunkline_status on_event(trunkline_live_batch* live, Event&& event) {
  return guard([&] {
    const auto held = exclusive<LiveBatchObject>(live);
    check_events_allowed(*held);
    const Lease::Change change(held->forest_lease);
    event(held->live);
  });
}

NewPages new_pages(const trunkline_new_pages* given, std::int32_t rows) {
  if (given == nullptr) return {};
  const trunkline_new_pages from = read_struct(given, "pages");
  check_reserved(from.reserved, "pages.reserved");
  need(from.indptr, "pages.indptr");
  NewPages pages;
  pages.indptr = {from.indptr, static_cast<std::size_t>(rows) + 1};
  pages.ids = page_ids(from.ids, from.id_dtype, pages.indptr.back(), "pages.ids");
  return pages;
}

NewRequest new_request(const trunkline_new_request* given) {
  const trunkline_new_request from = read_struct(given, "request");
  check_reserved(from.reserved, "request.reserved");
  NewRequest request;
  request.kv_len = from.kv_len;
  request.queries = from.queries == 0 ? 1 : from.queries;
  request.pages =
      from.page_count == 0 ? PageIds{} : page_ids(from.pages, from.id_dtype, from.page_count, "request.pages");
  request.query_parents = parents_of(from.query_parents, request.queries);
  return request;
}

trunkline_page_table table_view(const PageTable& pages) {
  const bool wide = std::holds_alternative<std::span<const std::int64_t>>(pages.ids());
  trunkline_page_table view{};
  view.form = pages.row_map() != nullptr ? TRUNKLINE_POOLED : TRUNKLINE_DENSE;
  view.id_dtype = wide ? TRUNKLINE_I64 : TRUNKLINE_I32;
  std::visit(
      [&](auto ids) {
        view.ids = ids.data();
        view.id_count = static_cast<std::int64_t>(ids.size());
      },
      pages.ids());
  view.width = pages.width();
  view.row_map = pages.row_map();
  view.rows = pages.rows();
  view.page_size = pages.page_size();
  return view;
}

trunkline_batch batch_view(const Batch& batch) {
  const auto data = [](auto span) { return span.empty() ? nullptr : span.data(); };
  trunkline_batch view{};
  view.kv_lens = data(batch.kv_lens);
  view.rows = batch.rows();
  view.has_null_page = batch.null_page >= 0 ? 1 : 0;
  view.null_page = batch.null_page;
  view.num_pages = batch.num_pages;
  view.query_start = data(batch.query_start);
  view.query_parents = data(batch.query_parents);
  view.slots = data(batch.slots);
  view.generations = data(batch.generations);
  return view;
}

}  // namespace

trunkline_status trunkline_live_batch_create(const trunkline_live_batch_options* options, trunkline_live_batch** live) {
  return guard([&] {
    need(live, "live");
    const trunkline_live_batch_options from = read_struct(options, "options");
    LiveBatchOptions with;
    with.page_size = from.page_size;
    with.num_pages = from.num_pages;
    with.null_page = null_page_of(from.has_null_page, from.null_page, "options");
    with.expected_requests = from.expected_requests;
    with.expected_pages = from.expected_pages;
    *live = static_cast<trunkline_live_batch*>(publish(std::make_shared<LiveBatchObject>(with)));
  });
}

trunkline_status trunkline_live_batch_advance(trunkline_live_batch* live, const int32_t* kv_lens, int32_t rows,
                                              const trunkline_new_pages* pages) {
  return on_event(live, [&](LiveBatch& batch) {
    const auto lengths = row_entries(kv_lens, rows, "kv_lens");
    batch.advance(lengths, new_pages(pages, rows));
  });
}

trunkline_status trunkline_live_batch_join(trunkline_live_batch* live, const trunkline_new_request* request,
                                           trunkline_request* id) {
  return on_event(live, [&](LiveBatch& batch) {
    need(id, "id");
    *id = request_of(batch.join(new_request(request)));
  });
}

trunkline_status trunkline_live_batch_leave(trunkline_live_batch* live, trunkline_request request) {
  return on_event(live, [&](LiveBatch& batch) { batch.leave(id_of(request)); });
}

trunkline_status trunkline_live_batch_fork(trunkline_live_batch* live, trunkline_request parent,
                                           trunkline_request* id) {
  return on_event(live, [&](LiveBatch& batch) {
    need(id, "id");
    *id = request_of(batch.fork(id_of(parent)));
  });
}

trunkline_status trunkline_live_batch_replace_page(trunkline_live_batch* live, trunkline_request request, int32_t index,
                                                   int64_t page) {
  return on_event(live, [&](LiveBatch& batch) { batch.replace_page(id_of(request), index, page); });
}

trunkline_status trunkline_live_batch_truncate(trunkline_live_batch* live, trunkline_request request, int32_t kv_len) {
  return on_event(live, [&](LiveBatch& batch) { batch.truncate(id_of(request), kv_len); });
}

trunkline_status trunkline_live_batch_set_queries(trunkline_live_batch* live, trunkline_request request,
                                                  int32_t queries, const int32_t* query_parents) {
  return on_event(
      live, [&](LiveBatch& batch) { batch.set_queries(id_of(request), queries, parents_of(query_parents, queries)); });
}

trunkline_status trunkline_live_batch_reorder(trunkline_live_batch* live, const int32_t* order, int32_t rows) {
  return on_event(live, [&](LiveBatch& batch) { batch.reorder(row_entries(order, rows, "order")); });
}

trunkline_status trunkline_live_batch_rows(const trunkline_live_batch* live, int32_t* rows) {
  return guard([&] {
    need(rows, "rows");
    *rows = shared<LiveBatchObject>(live)->live.rows();
  });
}

trunkline_status trunkline_live_batch_request_at(const trunkline_live_batch* live, int32_t row,
                                                 trunkline_request* request) {
  return guard([&] {
    need(request, "request");
    const auto held = shared<LiveBatchObject>(live);
    if (row < 0 || row >= held->live.rows()) {
      fail(ErrorCode::kOutOfRange, "row is ", row, "; the live batch has ", held->live.rows(), " rows");
    }
    *request = request_of(held->live.request(row));
  });
}

trunkline_status trunkline_live_batch_get_request(const trunkline_live_batch* live, trunkline_request request,
                                                  trunkline_request_info* info) {
  return guard([&] {
    const auto held = shared<LiveBatchObject>(live);
    const RequestId id = id_of(request);
    const std::span<const std::int32_t> pages = held->live.request_pages(id);
    write_struct(info, "info",
                 {.struct_size = 0,
                  .row = held->live.row(id),
                  .kv_len = held->live.kv_len(id),
                  .shared_tokens = held->live.shared_tokens(id),
                  .page_count = static_cast<std::int32_t>(pages.size()),
                  .pages = pages.data()});
  });
}

trunkline_status trunkline_live_batch_sharing_revision(const trunkline_live_batch* live, uint64_t* revision) {
  return guard([&] {
    need(revision, "revision");
    *revision = shared<LiveBatchObject>(live)->live.sharing_revision();
  });
}

trunkline_status trunkline_live_batch_view(const trunkline_live_batch* live, trunkline_batch* batch,
                                           trunkline_page_table* pages) {
  return guard([&] {
    const auto held = shared<LiveBatchObject>(live);
    checked_size(batch, "batch");
    checked_size(pages, "pages");
    const Batch from = held->live.batch();
    trunkline_batch view = batch_view(from);
    view.pages = pages;
    write_struct(pages, "pages", table_view(from.pages));
    write_struct(batch, "batch", view);
  });
}

trunkline_status trunkline_live_batch_forest(trunkline_live_batch* live, const trunkline_forest** forest) {
  return guard([&] {
    need(forest, "forest");
    const auto held = exclusive<LiveBatchObject>(live);
    Lease::Change change(held->forest_lease);
    held->forest->current = &held->live.forest();
    *forest = static_cast<const trunkline_forest*>(change.had_handle() ? change.keep() : change.replace());
  });
}

trunkline_status trunkline_live_batch_destroy(trunkline_live_batch* live) {
  if (live == nullptr) return TRUNKLINE_OK;
  return guard([&] {
    auto held = exclusive<LiveBatchObject>(live);
    check_events_allowed(*held);
    { const Lease::Change change(held->forest_lease); }
    held.close();
  });
}
