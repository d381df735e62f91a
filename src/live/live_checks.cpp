#include "live/live_checks.hpp"

#include <algorithm>
#include <limits>
#include <variant>
#include <vector>

#include "base/check.hpp"

namespace trunkline {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse_page(const char* name, std::int64_t index, std::int64_t page, std::int64_t num_pages) {
  fail(ErrorCode::kOutOfRange, name, "[", index, "] is ", page, "; ids must be in [0, ", num_pages, ")");
}

void check_pages(const char* name, const PageIds& ids, std::int64_t first, std::int64_t last, std::int64_t num_pages) {
  std::visit(
      [&](auto span) {
        for (std::int64_t i = first; i < last; ++i) {
          const std::int64_t page = span[static_cast<std::size_t>(i)];
          if (page < 0 || page >= num_pages) refuse_page(name, i, page, num_pages);
        }
      },
      ids);
}

void check_new_pages(const NewPages& pages, std::size_t rows) {
  if (pages.indptr.empty()) {
    if (size_of(pages.ids) == 0) return;
    fail(ErrorCode::kInvalidArgument, "pages.indptr has no entries, but there are ", size_of(pages.ids), " pages");
  }
  if (pages.indptr.size() != rows + 1) {
    fail(ErrorCode::kInvalidArgument, "pages.indptr has ", pages.indptr.size(),
         " entries; it must have rows + 1 = ", rows + 1);
  }
  if (pages.indptr[0] != 0) {
    fail(ErrorCode::kInvalidArgument, "pages.indptr[0] is ", pages.indptr[0], "; it must be 0");
  }
  if (pages.indptr[rows] != size_of(pages.ids)) {
    fail(ErrorCode::kInvalidArgument, "pages.indptr[", rows, "] is ", pages.indptr[rows], "; there are ",
         size_of(pages.ids), " pages");
  }
}

/// Says what is wrong with a row, if anything is.
void check_row(const LiveBatchState& state, std::size_t row, std::int32_t kv_len, std::int64_t given) {
  const std::int32_t slot = state.slots[row];
  const std::int32_t before = state.kv_lens[row];
  if (kv_len < before) {
    fail(ErrorCode::kInvalidArgument, "kv_lens[", row, "] is ", kv_len, ", but row ", row, " has ", before,
         " tokens; lengths do not shrink, except by truncate()");
  }
  const std::int32_t queries = state.queries[static_cast<std::size_t>(slot)];
  if (kv_len > 0 && kv_len < queries) {
    fail(ErrorCode::kInvalidArgument, "kv_lens[", row, "] is ", kv_len, ", fewer than the ", queries,
         " query tokens of row ", row, ", which it counts too");
  }
  const std::int64_t held = state.pages.count(slot);
  const std::int64_t needed = pages_for(kv_len, state.options.page_size);
  if (held + given != needed) {
    fail(ErrorCode::kInvalidArgument, "pages has ", given, " for row ", row, ", which has ", held, " and needs ",
         needed, " of ", state.options.page_size, " tokens for kv_lens[", row, "], ", kv_len);
  }
}

void check_parents(std::span<const std::int32_t> parents) {
  for (std::size_t i = 0; i < parents.size(); ++i) {
    const bool right = i == 0 ? parents[i] == -1 : parents[i] >= 0 && parents[i] < static_cast<std::int64_t>(i);
    if (right) continue;
    fail(ErrorCode::kInvalidArgument, "query_parents[", i, "] is ", parents[i],
         "; token 0 must have -1, and each other an earlier token");
  }
}

}  // namespace

void check_options(const LiveBatchOptions& options) {
  if (options.page_size < 1) {
    fail(ErrorCode::kInvalidArgument, "options.page_size is ", options.page_size, "; it must be >= 1");
  }
  if (options.num_pages < 0 || options.num_pages > kMaxInt32) {
    fail(ErrorCode::kInvalidArgument, "options.num_pages is ", options.num_pages, "; it must be in [0, ", kMaxInt32,
         "]");
  }
  if (options.null_page >= options.num_pages) {
    fail(ErrorCode::kOutOfRange, "options.null_page is ", options.null_page, "; ids must be in [0, ", options.num_pages,
         ")");
  }
  if (options.expected_requests < 0 || options.expected_pages < 0) {
    fail(ErrorCode::kInvalidArgument, "options expect ", options.expected_requests, " requests of ",
         options.expected_pages, " pages; both must be >= 0");
  }
}

void check_request_pages(const NewRequest& request, const LiveBatchOptions& options) {
  if (request.kv_len < 0) fail(ErrorCode::kInvalidArgument, "kv_len is ", request.kv_len, "; lengths must be >= 0");
  const std::int64_t needed = pages_for(request.kv_len, options.page_size);
  if (size_of(request.pages) != needed) {
    fail(ErrorCode::kInvalidArgument, "pages has ", size_of(request.pages), "; kv_len ", request.kv_len, " needs ",
         needed, " of ", options.page_size, " tokens");
  }
  check_pages("pages", request.pages, 0, needed, options.num_pages);
}

QueryTokens checked_queries(std::int32_t queries, std::span<const std::int32_t> parents, std::int32_t kv_len) {
  if (queries < 1 || (kv_len > 0 && queries > kv_len)) {
    fail(ErrorCode::kInvalidArgument, "queries is ", queries, "; it must be >= 1, and at most kv_len, ", kv_len,
         ", which counts them too");
  }
  if (parents.empty()) return {queries, {}};
  if (parents.size() != static_cast<std::size_t>(queries)) {
    fail(ErrorCode::kInvalidArgument, "query_parents has ", parents.size(), " entries; queries is ", queries);
  }
  check_parents(parents);
  bool chain = true;
  for (std::size_t i = 0; i < parents.size(); ++i) chain = chain && parents[i] == static_cast<std::int64_t>(i) - 1;
  if (chain) return {queries, {}};
  return {queries, parents};
}

std::int64_t check_advance(const LiveBatchState& state, std::span<const std::int32_t> kv_lens, const NewPages& pages) {
  const std::size_t rows = state.slots.size();
  if (kv_lens.size() != rows) {
    fail(ErrorCode::kInvalidArgument, "kv_lens has ", kv_lens.size(), " entries; the batch has ", rows, " rows");
  }
  check_new_pages(pages, rows);
  const std::int32_t* const indptr = pages.indptr.empty() ? nullptr : pages.indptr.data();
  const std::int32_t page_size = state.options.page_size;
  std::int64_t max_places = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t given = indptr == nullptr ? 0 : std::int64_t{indptr[row + 1]} - indptr[row];
    if (given < 0) {
      fail(ErrorCode::kInvalidArgument, "pages.indptr[", row + 1, "] is ", indptr[row + 1], " after ", indptr[row],
           "; it must not decrease");
    }
    const std::int32_t before = state.kv_lens[row];
    const std::int64_t places = state.pages.places(state.slots[row]) + given * page_size;
    max_places = std::max(max_places, places);
    // Without the division that gives the number of pages needed; requests without tokens are rare.
    const bool right = kv_lens[row] >= before && kv_lens[row] <= places && kv_lens[row] > places - page_size;
    if (!right || before == 0) check_row(state, row, kv_lens[row], given);
  }
  check_pages("pages.ids", pages.ids, 0, size_of(pages.ids), state.options.num_pages);
  return max_places / page_size;
}

void check_page(std::int64_t page, std::int64_t num_pages) {
  if (page < 0 || page >= num_pages) {
    fail(ErrorCode::kOutOfRange, "page is ", page, "; ids must be in [0, ", num_pages, ")");
  }
}

void check_permutation(std::span<const std::int32_t> rows, std::int32_t count, std::vector<std::int32_t>& scratch) {
  if (rows.size() != static_cast<std::size_t>(count)) {
    fail(ErrorCode::kInvalidArgument, "rows has ", rows.size(), " entries; the batch has ", count, " rows");
  }
  scratch.assign(rows.size(), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= count) {
      fail(ErrorCode::kOutOfRange, "rows[", i, "] is ", rows[i], "; the batch has ", count, " rows");
    }
    if (scratch[static_cast<std::size_t>(rows[i])]++ > 0) {
      fail(ErrorCode::kInvalidArgument, "rows[", i, "] is ", rows[i], " again; each row must be named once");
    }
  }
}

}  // namespace trunkline
